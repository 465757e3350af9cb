// Package launch determines the rank of this process in its job from its launcher's environment variables.
package launch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Place is the position of a process in its job.
type Place struct {
	Launcher string `json:"launcher"`       // name of the recognized launcher: "torchrun", "srun", …
	Rank     int    `json:"rank"`           // 0 … World-1
	World    int    `json:"world"`          // processes of the job; 0 if unknown
	Local    int    `json:"local_rank"`     // rank among the processes of this node; -1 if unknown
	Node     string `json:"node,omitempty"` // the node's name or number in the job, "" if unknown
	Attempt  int    `json:"attempt"`        // number of previous restarts
	Job      string `json:"job,omitempty"`  // job ID of the launcher
}

// launcherRow lists the variables of one launcher. Of several names, the first variable that is set counts.
type launcherRow struct {
	launcher    string
	needs       []string // variables that must not be empty
	rank, world []string
	worldless   bool // the launcher sets no world size, and the row matches without it
	local       []string
	node        []string
	attempt     []string
	job         []string
	// matches is an additional condition; nil for none.
	matches func(get func(string) string) bool
}

// launchers returns the rows in order of precedence. If an allocation's own launcher, such as srun, starts another one,
// such as mpirun, the started one comes first: the variables of srun then describe mpirun's daemons and not the ranks.
func launchers() []launcherRow {
	return []launcherRow{
		{launcher: "explicit", rank: []string{"GPUPROF_RANK"}, world: []string{"GPUPROF_WORLD"}, local: []string{"GPUPROF_LOCAL_RANK"},
			node: []string{"GPUPROF_NODE"}, attempt: []string{"GPUPROF_ATTEMPT"}, job: []string{"GPUPROF_JOB"}},
		// https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables"
		{launcher: "torchrun", needs: []string{"TORCHELASTIC_RUN_ID"}, rank: []string{"RANK"}, world: []string{"WORLD_SIZE"}, local: []string{"LOCAL_RANK"},
			node: []string{"GROUP_RANK"}, attempt: []string{"TORCHELASTIC_RESTART_COUNT"}, job: []string{"TORCHELASTIC_RUN_ID"}},
		{launcher: "torch.distributed", needs: []string{"MASTER_ADDR"}, rank: []string{"RANK"}, world: []string{"WORLD_SIZE"}, local: []string{"LOCAL_RANK"},
			node: []string{"GROUP_RANK", "NODE_RANK"}},
		{launcher: "mpirun (Open MPI)", rank: []string{"OMPI_COMM_WORLD_RANK"}, world: []string{"OMPI_COMM_WORLD_SIZE"}, local: []string{"OMPI_COMM_WORLD_LOCAL_RANK"}},
		{launcher: "PALS", rank: []string{"PALS_RANKID"}, worldless: true, local: []string{"PALS_LOCAL_RANKID"}, node: []string{"PALS_NODEID"}},
		{launcher: "mpirun (MVAPICH)", rank: []string{"MV2_COMM_WORLD_RANK"}, world: []string{"MV2_COMM_WORLD_SIZE"}, local: []string{"MV2_COMM_WORLD_LOCAL_RANK"}},
		{launcher: "mpirun (MPICH)", rank: []string{"PMI_RANK"}, world: []string{"PMI_SIZE"}, local: []string{"MPI_LOCALRANKID"}},
		// https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES". SLURM_PROCID is also set in batch
		// scripts, which have no rank.
		{launcher: "srun", rank: []string{"SLURM_PROCID"}, world: []string{"SLURM_STEP_NUM_TASKS"}, local: []string{"SLURM_LOCALID"},
			node: []string{"SLURMD_NODENAME", "SLURM_NODEID"}, attempt: []string{"SLURM_RESTART_COUNT"}, job: []string{"SLURM_JOB_ID"}, matches: isJobStep},
		{launcher: "flux", rank: []string{"FLUX_TASK_RANK"}, world: []string{"FLUX_JOB_SIZE"}, local: []string{"FLUX_TASK_LOCAL_ID"}, job: []string{"FLUX_JOB_ID"}},
		// An Indexed Job of Kubernetes sets no world size; the user sets GPUPROF_WORLD in its manifest.
		{launcher: "kubernetes", rank: []string{"JOB_COMPLETION_INDEX"}, world: []string{"GPUPROF_WORLD"}, worldless: true,
			node: []string{"GPUPROF_NODE"}, attempt: []string{"GPUPROF_ATTEMPT"}, job: []string{"GPUPROF_JOB"}},
	}
}

// firstInternalStep is the first step ID that Slurm reserves for batch scripts, interactive shells and the like.
const firstInternalStep = 4294967290

func isJobStep(get func(string) string) bool {
	id, err := strconv.ParseUint(get("SLURM_STEP_ID"), 10, 64)
	return err == nil && id < firstInternalStep
}

// Find returns the place of this process; get is os.Getenv. ok is false outside of a job.
func Find(get func(string) string) (p Place, ok bool) {
	for _, r := range launchers() {
		if p, ok := r.parsePlace(get); ok {
			return p, true
		}
	}
	return Place{}, false
}

// Node returns the name of this machine, from the first of: GPUPROF_NODE, the launcher's name, SLURMD_NODENAME (also
// set outside of steps), the system's name host, the launcher's node number. It may be empty.
func Node(get func(string) string, host string) string {
	p, _ := Find(get)
	number, name := p.Node, ""
	if strings.Trim(p.Node, "0123456789") != "" {
		number, name = "", p.Node
	}
	return cmp.Or(firstText(get, []string{"GPUPROF_NODE"}), name, firstText(get, []string{"SLURMD_NODENAME"}), host, number)
}

// Refused explains why GPUPROF_RANK and GPUPROF_WORLD give no valid rank; "" without GPUPROF_RANK.
func Refused(get func(string) string) string {
	rank, world := get("GPUPROF_RANK"), get("GPUPROF_WORLD")
	if rank == "" {
		return ""
	}
	if world == "" {
		return "GPUPROF_RANK is set and GPUPROF_WORLD is not"
	}
	return "GPUPROF_RANK=" + rank + " is no rank of GPUPROF_WORLD=" + world
}

// parsePlace returns the place; ok is false if there is no rank, or if the rank is not below the world size.
func (r *launcherRow) parsePlace(get func(string) string) (Place, bool) {
	if slices.ContainsFunc(r.needs, func(name string) bool { return get(name) == "" }) || r.matches != nil && !r.matches(get) {
		return Place{}, false
	}
	rank, ranked := firstNumber(get, r.rank)
	world, told := firstNumber(get, r.world)
	if !ranked || !told && !r.worldless || told && rank >= world {
		return Place{}, false
	}
	p := Place{Launcher: r.launcher, Rank: rank, World: world, Local: -1, Node: firstText(get, r.node), Job: firstText(get, r.job)}
	if n, ok := firstNumber(get, r.local); ok {
		p.Local = n
	}
	p.Attempt, _ = firstNumber(get, r.attempt)
	return p, true
}

// firstText returns the value of the first variable that is set; "" for none.
func firstText(get func(string) string, names []string) string {
	for _, name := range names {
		if v := strings.TrimSpace(get(name)); v != "" {
			return v
		}
	}
	return ""
}

// MostRanks exceeds the number of ranks of any job: larger numbers are invalid. It limits the missing ranks that a
// damaged object can imply.
const MostRanks = 1 << 20

// firstNumber returns the value of the first variable that is set, if it is a count.
func firstNumber(get func(string) string, names []string) (int, bool) {
	v, err := strconv.ParseUint(firstText(get, names), 10, 32)
	if err != nil || v > MostRanks {
		return 0, false
	}
	return int(v), true
}
