// Package collate is the reference workload of input pipelines: what a data loader, its collate function and the copy
// to the device do before a training step can begin. Graph samples vary in size: atoms, their neighbour lists, and
// random probe points with the atoms in reach. The caller or workers draw samples and assemble them into a batch. The
// batch is staged, copied, and consumed by a kernel of adjustable length.
//
// Read top down: input.go defines a sample, batch.go the layout of a batch, maker.go, bulk.go and naive.go make one,
// pool.go and process_unix.go are the workers, session.go allocates, step.go is the timed step, check.go compares
// with the reference.
package collate

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Workload is the collate workload; it has no state.
type Workload struct{}

// New returns the workload.
func New() workloads.Workload { return Workload{} }

// Name implements workloads.Workload.
func (Workload) Name() string { return "collate" }

// Doc implements workloads.Workload.
func (Workload) Doc() string {
	return "input pipeline: samples drawn and collated by workers, staged, copied to the device, consumed"
}

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	return []workloads.Preset{
		{Name: "small", Doc: "batches of 64 HfO2 graphs with 32 to 96 probes each: milliseconds per step on two cores", DefaultOn: []string{"host"}},
		{Name: "deepaw", Doc: "one graph of 3,000 probes with about 74,250 edges per batch, as charge-density inference takes them",
			Set: gpuprof.Settings{"batch": "1", "probes": "3000", "spread": "0", "consume": "64"}, DefaultOn: []string{"cuda"}},
		{Name: "naive", Doc: "deepaw's batches with every habit that tuning guides warn of: the start of an ablation",
			Set: gpuprof.Settings{
				"batch": "1", "probes": "3000", "spread": "0", "consume": "1", "workers": "0", "impl": implNaive, "reuse": "off", "shortcut": "off",
				"pinned": pinnedOff, "async_copy": "off", "streams": "1",
			}},
	}
}

// Values of knobs that the code compares with.
const (
	implNaive  = "naive"
	implBulk   = "bulk"
	implCached = "cached"

	kindGoroutine = "goroutine"
	kindProcess   = "process"

	pinnedOn    = "on"
	pinnedBatch = "batch"
	pinnedOff   = "off"

	hafnia = "hfo2"
	auto   = "auto"
)

const (
	maxBatch   = 1 << 16
	maxWorkers = 256
	maxPasses  = 100_000
)

// Knobs implements workloads.Workload. Defaults are the preset small with the settings that a careful user would
// choose.
func (Workload) Knobs() []workloads.Knob {
	return []workloads.Knob{
		{Name: "structures", Doc: "source of samples: hfo2 (one crystal, random probes), or a folder of extended XYZ and POSCAR/CONTCAR files, one sample each",
			Default: hafnia, Values: []string{hafnia}, Accept: "a folder of structure files", Parse: existingFolder, NamesFile: true, Model: true},
		workloads.IntKnob("probes", "probe points per sample, in the mean", 64, 1, gridSize*gridSize*gridSize).AsModel(),
		workloads.IntKnob("spread", "how far the number of probes varies around probes, in percent either way", 50, 0, 100).AsModel(),
		workloads.FloatKnob("cutoff", "neighbour radius in angstrom; 4.083 gives HfO2 a mean degree of 24.75", 4.083, 0, 1000).AsModel(),
		workloads.Choice("padded", "batch layout: off concatenates samples, on pads each to the longest of its batch", "off", "on").AsModel(),
		workloads.IntKnob("consume", "length of the kernel that consumes a batch: terms computed for each edge", 16, 0, maxPasses).AsModel(),
		loop.BatchKnob("samples per batch", 64, maxBatch, ""),
		workersKnob(),
		workerKindKnob(),
		persistentKnob(),
		epochKnob(),
		prefetchKnob(),
		implKnob(),
		loaderKnob(workloads.Choice("reuse", "memory of samples: kept from batch to batch, or made again each time", "on", "off"),
			map[string]string{"on": "collate into tensors allocated once instead of torch.stack into new ones"},
			map[string]string{"on": "out = torch.cat(samples, out=buffer)  # a buffer kept from batch to batch", "off": "out = torch.cat(samples)  # into new memory each time"}),
		loaderKnob(workloads.Choice("shortcut", "a batch of one sample is that sample, not a copy of it", "on", "off"),
			map[string]string{"on": "return the only sample of a batch as it is instead of stacking it"},
			map[string]string{"on": "collate_fn = lambda s: s[0] if len(s) == 1 else default_collate(s)", "off": "collate_fn = default_collate  # also of a single sample"}),
		loop.PinnedKnob("host memory of the copy: on (a ring pinned once), batch (pinned again for every batch), off (pageable)", pinnedOn, pinnedBatch, pinnedOff),
		loop.AsyncKnob("off makes the host thread wait for the copy, as .to(device) without non_blocking does"),
		loop.StreamsKnob("2 copies on a stream beside the one that consumes, 1 on the same"),
		loop.SyncKnob("when the host thread waits for the device: step (as a loop that looks at its loss), never, or every K steps", "step"),
		loop.ItemReads(workloads.IntKnob("", "four-byte reads of the result per step, each followed by a synchronization, as .item() does", 0, 0, 4096), "0"),
		loop.ThreadsKnob("CPU threads of the host device's kernels"),
	}
}

func existingFolder(s string) (string, error) {
	if st, err := os.Stat(s); err != nil {
		return "", fmt.Errorf("is neither hfo2 nor a folder that can be read (%w)", err)
	} else if !st.IsDir() {
		return "", fmt.Errorf("is a file, not a folder of structure files")
	}
	return s, nil
}

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage { return allStages() }

func workerCount(s string) (string, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return "", fmt.Errorf("is not a whole number")
	}
	if n < 0 || n > maxWorkers {
		return "", fmt.Errorf("is outside 0 to %d", maxWorkers)
	}
	return strconv.Itoa(n), nil
}

func readSettings(set gpuprof.Settings) settings {
	k := workloads.Read[settings](set)
	if k.AutoWorkers {
		k.Workers = max(1, min(runtime.GOMAXPROCS(0)-1, 4))
	}
	return k
}

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, set gpuprof.Settings) error {
	k := readSettings(set)
	if err := workloads.RefuseThreads(d, k.Threads); err != nil {
		return err
	}
	if k.WorkerKind == kindProcess && k.Workers > 0 {
		return refuseProcesses()
	}
	return nil
}

// Open implements workloads.Workload.
func (Workload) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	s, err := open(ctx, d, c)
	if err != nil { // a nil *session would be a non-nil Session
		return nil, err
	}
	return s, nil
}
