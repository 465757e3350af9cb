package collate

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// settings are the knobs of a run, except those of the recipe.
type settings struct {
	Structures  string `knob:"structures"`
	Consume     int    `knob:"consume"`
	Workers     int    `knob:"workers"`
	AutoWorkers bool   `knob:"workers=auto"`
	WorkerKind  string `knob:"worker_kind"`
	Restarts    bool   `knob:"persistent=off"`
	Epoch       int    `knob:"epoch"`
	Prefetch    int    `knob:"prefetch"`
	Pinned      string `knob:"pinned"`
	Threads     int    `knob:"threads"`
}

func loaderKnob(k workloads.Knob, advice, lines map[string]string, answers ...workloads.Answer) workloads.Knob {
	k.Acts = []string{"starved", "sample", loop.Collate}
	k.Advice, k.PyTorch, k.Answers = advice, lines, answers
	return k
}

func workersKnob() workloads.Knob {
	k := workloads.Knob{Name: "workers", Doc: "maker of batches: 0 is the host thread between steps, N is workers that make them ahead; auto is one less than the cores, 1 to 4",
		Default: auto, Values: []string{auto}, Accept: fmt.Sprintf("integer from 0 to %d", maxWorkers), Parse: workerCount,
		Try: []string{"0", "1", "2", strconv.Itoa(min(runtime.NumCPU(), 8))}}
	return loaderKnob(k,
		map[string]string{"0": "", auto: loop.WorkersAdvice, workloads.AnyValue: "DataLoader(..., num_workers=%s, persistent_workers=True)"},
		map[string]string{auto: "loader = DataLoader(dataset, num_workers=max(1, min(os.cpu_count() - 1, 4)))", workloads.AnyValue: "loader = DataLoader(dataset, num_workers=%s)"},
		workloads.Answer{Remedy: workloads.AddWorkers, To: auto, When: gpuprof.Settings{"workers": "0"}}, workloads.Answer{Remedy: workloads.AddWorkers})
}

func workerKindKnob() workloads.Knob {
	return loaderKnob(workloads.Choice("worker_kind", "workers are goroutines, or processes with the cost of starting, serialising and shared memory, as a Python loader's do", kindGoroutine, kindProcess),
		map[string]string{kindGoroutine: "DataLoader(..., num_workers=...): in one process only if the dataset releases the GIL"},
		map[string]string{kindProcess: "loader = DataLoader(dataset, num_workers=N)", kindGoroutine: "# threads instead of processes: a loader of your own with concurrent.futures.ThreadPoolExecutor"},
		workloads.Answer{Remedy: workloads.FeedWorkers})
}

func persistentKnob() workloads.Knob {
	return loaderKnob(workloads.Choice("persistent", "off ends all workers after each epoch and starts new ones", "on", "off"),
		map[string]string{"on": "DataLoader(..., persistent_workers=True)"},
		map[string]string{
			"on":  "loader = DataLoader(dataset, num_workers=N, persistent_workers=True)",
			"off": "loader = DataLoader(dataset, num_workers=N, persistent_workers=False)",
		},
		workloads.Answer{Remedy: workloads.KeepWorkers, To: "on", When: gpuprof.Settings{"persistent": "off"}})
}

// epochKnob returns the knob epoch: only persistent=off, which restarts workers, depends on it, so it is not tuned.
func epochKnob() workloads.Knob {
	k := workloads.IntKnob("epoch", "batches per epoch, for persistent=off", 64, 1, 1<<30)
	k.Try = []string{}
	k.Repeats = func(set gpuprof.Settings) int {
		if k := readSettings(set); k.Restarts {
			return k.Epoch
		}
		return 0
	}
	return loaderKnob(k, nil, map[string]string{workloads.AnyValue: "# %s batches per epoch, after which a loader without persistent_workers ends its workers"})
}

func prefetchKnob() workloads.Knob {
	k := workloads.IntKnob("prefetch", "batches each worker makes ahead", 2, 1, 64)
	k.Try = []string{"1", "2", "4"}
	return loaderKnob(k, map[string]string{workloads.AnyValue: "DataLoader(..., prefetch_factor=%s)"},
		map[string]string{workloads.AnyValue: "loader = DataLoader(dataset, num_workers=N, prefetch_factor=%s)"}, workloads.Answer{Remedy: workloads.FeedWorkers})
}

func implKnob() workloads.Knob {
	return loaderKnob(workloads.Choice("impl", "collation: cached (block copies, a structure's atom graph made once), bulk (block copies), naive (appended element by element, boxed)", implCached, implBulk, implNaive),
		loop.FuseAdvice(implNaive),
		map[string]string{
			implNaive: "# lists that grow element by element, then torch.tensor(list)", implBulk: "batch = torch.cat(samples)  # instead of appending element by element",
			implCached: "graph = graphs[structure]  # build each structure's graph once, then torch.cat",
		},
		workloads.Answer{Remedy: workloads.CollateFaster, To: implCached, When: gpuprof.Settings{"impl": implNaive},
			PyTorch: "collate_fn: fill preallocated arrays with block copies and call torch.from_numpy once per field; no list.append and no torch.tensor(list)"})
}
