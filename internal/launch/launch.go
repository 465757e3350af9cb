// Package launch finds out which process of a job this one is, from what the
// program that started it left in the environment. Nothing is asked of a launcher
// and no peer is spoken to.
package launch

import (
	"cmp"
	"strconv"
	"strings"
)

// Place is a process's place in its job.
type Place struct {
	Launcher string `json:"launcher"`       // the row that told: "torchrun", "srun", …
	Rank     int    `json:"rank"`           // 0 … World-1
	World    int    `json:"world"`          // processes of the job; 0 where it is not told
	Local    int    `json:"local_rank"`     // among those of this node; -1 where it is not told
	Node     string `json:"node,omitempty"` // the node's name or number in the job, "" where it is not told
	Attempt  int    `json:"attempt"`        // restarts before this one
	Job      string `json:"job,omitempty"`  // the launcher's name of the job
}

// row is how one launcher tells a process its place. Names are of variables; the
// first that is set counts where there are several.
type row struct {
	launcher    string
	needs       []string // set and not empty, or the row says nothing
	rank, world []string
	worldless   bool // the launcher tells no world; the row counts without
	local       []string
	node        []string
	attempt     []string
	job         []string
	// holds looks closer, where variables alone do not tell; nil: they do.
	holds func(get func(string) string) bool
}

// rows are in the order of trust: a launcher within an allocation is nearer to the
// process than the allocation's own, whose variables are then those of a daemon.
func rows() []row {
	return []row{
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
		// scripts, which no step started: they are not a rank of anything.
		{launcher: "srun", rank: []string{"SLURM_PROCID"}, world: []string{"SLURM_STEP_NUM_TASKS"}, local: []string{"SLURM_LOCALID"},
			node: []string{"SLURMD_NODENAME", "SLURM_NODEID"}, attempt: []string{"SLURM_RESTART_COUNT"}, job: []string{"SLURM_JOB_ID"}, holds: inStep},
		{launcher: "flux", rank: []string{"FLUX_TASK_RANK"}, world: []string{"FLUX_JOB_SIZE"}, local: []string{"FLUX_TASK_LOCAL_ID"}, job: []string{"FLUX_JOB_ID"}},
		// An Indexed Job tells no world: its manifest sets GPUPROF_WORLD.
		{launcher: "kubernetes", rank: []string{"JOB_COMPLETION_INDEX"}, world: []string{"GPUPROF_WORLD"}, worldless: true,
			node: []string{"GPUPROF_NODE"}, attempt: []string{"GPUPROF_ATTEMPT"}, job: []string{"GPUPROF_JOB"}},
	}
}

// firstInternalStep is the first step id of those that Slurm keeps for batch
// scripts, interactive shells and the like.
const firstInternalStep = 4294967290

func inStep(get func(string) string) bool {
	id, err := strconv.ParseUint(get("SLURM_STEP_ID"), 10, 64)
	return err == nil && id < firstInternalStep
}

// Find is this process's place, by get, which is os.Getenv. ok is false where it is
// no process of a job: no row of the table is complete.
func Find(get func(string) string) (p Place, ok bool) {
	for _, r := range rows() {
		if p, ok := r.place(get); ok {
			return p, true
		}
	}
	return Place{}, false
}

// Node is the name of this machine: GPUPROF_NODE, the launcher's name of it, SLURMD_NODENAME
// (also set outside of steps), or host, the system's own. A number that a launcher gives its
// nodes names no machine, and counts only where nothing else does. Empty: it has no name.
func Node(get func(string) string, host string) string {
	p, _ := Find(get)
	number, name := p.Node, ""
	if strings.Trim(p.Node, "0123456789") != "" {
		number, name = "", p.Node
	}
	return cmp.Or(text(get, []string{"GPUPROF_NODE"}), name, text(get, []string{"SLURMD_NODENAME"}), host, number)
}

// Refused says of variables that a user has set by hand why they name no rank, "" where
// none is set.
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

// place is complete where the rank is a number below the world.
func (r *row) place(get func(string) string) (Place, bool) {
	for _, name := range r.needs {
		if get(name) == "" {
			return Place{}, false
		}
	}
	if r.holds != nil && !r.holds(get) {
		return Place{}, false
	}
	rank, ranked := number(get, r.rank)
	world, told := number(get, r.world)
	if !ranked || !told && !r.worldless || told && rank >= world {
		return Place{}, false
	}
	p := Place{Launcher: r.launcher, Rank: rank, World: world, Local: -1, Node: text(get, r.node), Job: text(get, r.job)}
	if n, ok := number(get, r.local); ok {
		p.Local = n
	}
	p.Attempt, _ = number(get, r.attempt)
	return p, true
}

// text is the first of the variables that is set.
func text(get func(string) string, names []string) string {
	for _, name := range names {
		if v := strings.TrimSpace(get(name)); v != "" {
			return v
		}
	}
	return ""
}

// MostRanks is more processes than any job has; a larger number is none of a rank. It also
// bounds what a damaged object can make of the list of missing ranks.
const MostRanks = 1 << 20

// number is the first of the variables that is set, where it is a count.
func number(get func(string) string, names []string) (int, bool) {
	v, err := strconv.ParseUint(text(get, names), 10, 32)
	if err != nil || v > MostRanks {
		return 0, false
	}
	return int(v), true
}
