package launch

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func environment(text string) map[string]string {
	env := map[string]string{}
	for _, kv := range strings.Fields(text) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return env
}

func find(env map[string]string) (Place, bool) { return Find(func(k string) string { return env[k] }) }

// TestRows has every launcher, and environments as they were captured where one
// launcher's variables mean something else under another.
func TestRows(t *testing.T) {
	for name, c := range map[string]struct {
		env  string
		want Place
		none bool
	}{
		"nothing":              {env: "", none: true},
		"explicit":             {env: "GPUPROF_RANK=3 GPUPROF_WORLD=8 GPUPROF_LOCAL_RANK=1 GPUPROF_NODE=a GPUPROF_ATTEMPT=2", want: Place{"explicit", 3, 8, 1, "a", 2, ""}},
		"explicit comes first": {env: "GPUPROF_RANK=3 GPUPROF_WORLD=8 TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2", want: Place{"explicit", 3, 8, -1, "", 0, ""}},
		"torchrun": {env: "TORCHELASTIC_RUN_ID=none RANK=5 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 TORCHELASTIC_RESTART_COUNT=1 MASTER_ADDR=h",
			want: Place{"torchrun", 5, 16, 1, "1", 1, "none"}},
		"torchrun under srun": {env: "TORCHELASTIC_RUN_ID=1 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2",
			want: Place{"torchrun", 5, 8, 1, "", 0, "1"}},
		"RANK by hand":          {env: "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", want: Place{"torch.distributed", 1, 2, -1, "", 0, ""}},
		"RANK without a master": {env: "RANK=1 WORLD_SIZE=2", none: true},
		"Open MPI":              {env: "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1", want: Place{"mpirun (Open MPI)", 3, 4, 1, "", 0, ""}},
		"Open MPI in an allocation": {env: "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
			want: Place{"mpirun (Open MPI)", 3, 4, -1, "", 0, ""}},
		"PALS":    {env: "PALS_RANKID=7 PALS_LOCAL_RANKID=3 PALS_NODEID=1", want: Place{"PALS", 7, 0, 3, "1", 0, ""}},
		"MVAPICH": {env: "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1", want: Place{"mpirun (MVAPICH)", 1, 2, 1, "", 0, ""}},
		"MPICH":   {env: "PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1", want: Place{"mpirun (MPICH)", 1, 4, 1, "", 0, ""}},
		"srun": {env: "SLURM_JOB_ID=17 SLURM_PROCID=6 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_NODEID=3 SLURMD_NODENAME=n4 SLURM_RESTART_COUNT=1",
			want: Place{"srun", 6, 8, 0, "n4", 1, "17"}},
		"batch script":       {env: "SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=8", none: true},
		"array task":         {env: "SLURM_JOB_ID=17 SLURM_PROCID=0", none: true},
		"salloc shell":       {env: "SLURM_JOB_ID=17 SLURM_NTASKS=8", none: true},
		"interactive step":   {env: "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290", none: true},
		"batch step":         {env: "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967291", none: true},
		"flux":               {env: "FLUX_TASK_RANK=2 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=0 FLUX_JOB_ID=f1", want: Place{"flux", 2, 4, 0, "", 0, "f1"}},
		"indexed job":        {env: "JOB_COMPLETION_INDEX=2 GPUPROF_WORLD=4 GPUPROF_NODE=gpu-3", want: Place{"kubernetes", 2, 4, -1, "gpu-3", 0, ""}},
		"job without world":  {env: "JOB_COMPLETION_INDEX=2", want: Place{"kubernetes", 2, 0, -1, "", 0, ""}},
		"rank beyond world":  {env: "PMI_RANK=4 PMI_SIZE=4", none: true},
		"no number":          {env: "OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4", none: true},
		"an incomplete row":  {env: "OMPI_COMM_WORLD_RANK=1 PMI_RANK=1 PMI_SIZE=2", want: Place{"mpirun (MPICH)", 1, 2, -1, "", 0, ""}},
		"a negative rank":    {env: "PMI_RANK=-1 PMI_SIZE=2", none: true},
		"a number of orders": {env: "PMI_RANK=4294967295 PMI_SIZE=99999999999", none: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := find(environment(c.env))
			if ok == c.none || got != c.want {
				t.Errorf("%+v, %t; want %+v", got, ok, c.want)
			}
		})
	}
}

// TestRefused: a rank set by hand that is none is told as that, and not as no launcher.
func TestRefused(t *testing.T) {
	for env, want := range map[string]string{
		"":                               "",
		"PMI_RANK=4 PMI_SIZE=4":          "",
		"GPUPROF_WORLD=4":                "", // as a manifest sets it
		"GPUPROF_RANK=1":                 "GPUPROF_RANK is set and GPUPROF_WORLD is not",
		"GPUPROF_RANK=4 GPUPROF_WORLD=4": "GPUPROF_RANK=4 is no rank of GPUPROF_WORLD=4",
		"GPUPROF_RANK=x GPUPROF_WORLD=4": "GPUPROF_RANK=x is no rank of GPUPROF_WORLD=4",
	} {
		vars := environment(env)
		if got := Refused(func(k string) string { return vars[k] }); got != want {
			t.Errorf("%q: %q, want %q", env, got, want)
		}
	}
}

// TestTheHookKnowsThem: the recording hook, which is Python, has the same launchers.
func TestTheHookKnowsThem(t *testing.T) {
	hook, err := os.ReadFile("../record/hook/gpuprof_tools.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range launchers() {
		for _, name := range r.rank {
			world := ""
			if len(r.world) > 0 {
				world = r.world[0]
			}
			if want := fmt.Sprintf("(%q, %q),", name, world); !bytes.Contains(hook, []byte(want)) {
				t.Errorf("%s: the hook lacks %s", r.launcher, want)
			}
		}
	}
	if want := fmt.Sprint("FIRST_INTERNAL_STEP = ", firstInternalStep); !bytes.Contains(hook, []byte(want)) {
		t.Errorf("the hook lacks %s", want)
	}
}

// TestAnyEnvironment: whatever is set, there is a rank below the world or none.
func TestAnyEnvironment(t *testing.T) {
	names := map[string]bool{"SLURM_STEP_ID": true, "SLURM_NTASKS": true}
	for _, r := range launchers() {
		for _, list := range [][]string{r.needs, r.rank, r.world, r.local, r.node, r.attempt, r.job} {
			for _, n := range list {
				names[n] = true
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		env := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if rapid.Bool().Draw(t, "set "+name) {
				env[name] = rapid.SampledFrom([]string{"0", "1", "2", "7", "4294967291", "x", " 3 ", ""}).Draw(t, name)
			}
		}
		p, ok := find(env)
		if ok && (p.Rank < 0 || p.World != 0 && p.Rank >= p.World || p.Local < -1 || p.Launcher == "") {
			t.Fatalf("%v gives %+v", env, p)
		}
		if !ok && p != (Place{}) {
			t.Fatalf("%v gives %+v and no place", env, p)
		}
	})
}

// TestNode: GPUPROF_NODE names the machine under every launcher and under none, and the number
// that a launcher gives a node does not.
func TestNode(t *testing.T) {
	for name, c := range map[string]struct{ env, host, want string }{
		"alone":                     {"", "host", "host"},
		"alone, named":              {"GPUPROF_NODE=n7", "host", "n7"},
		"named with blanks":         {"GPUPROF_NODE=", "host", "host"},
		"a prolog of Slurm":         {"SLURMD_NODENAME=n3 SLURM_PROCID=0", "host", "n3"},
		"a prolog, named":           {"SLURMD_NODENAME=n3 GPUPROF_NODE=n7", "host", "n7"},
		"a step":                    {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURMD_NODENAME=n3", "host", "n3"},
		"a step, named":             {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURMD_NODENAME=n3 GPUPROF_NODE=n7", "host", "n7"},
		"a step that numbers nodes": {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_NODEID=1", "host", "host"},
		"torchrun":                  {"TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2 GROUP_RANK=1", "host", "host"},
		"torchrun, named":           {"TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2 GROUP_RANK=1 GPUPROF_NODE=n7", "host", "n7"},
		"torchrun without a name":   {"TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=2 GROUP_RANK=1", "", "1"},
		"mpirun, named":             {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 GPUPROF_NODE=n7", "host", "n7"},
		"explicit":                  {"GPUPROF_RANK=3 GPUPROF_WORLD=8 GPUPROF_NODE=12", "host", "12"},
		"no name at all":            {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			get := func(name string) string {
				for _, kv := range strings.Fields(c.env) {
					if k, v, _ := strings.Cut(kv, "="); k == name {
						return v
					}
				}
				return ""
			}
			if got := Node(get, c.host); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
