package gridsim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

type (
	set   = gpuprof.Settings
	lines = map[string]string
)

// settings are the knobs of a run. A value that is a word is stored as 0 in a number: Live=off, Chunk=all,
// MaxSplit=none.
type settings struct {
	Grid      int    `knob:"grid"`
	Channels  int    `knob:"channels"`
	Hidden    int    `knob:"hidden"`
	Law       string `knob:"law"`
	Normalise bool   `knob:"normalise"`
	Border    string `knob:"border"`
	Live      int    `knob:"live"`
	Maps      int    `knob:"maps"`
	Scale     int    `knob:"scale"`
	History   int    `knob:"history"`
	ROI       bool   `knob:"roi"`
	Impl      string `knob:"impl"`
	Layout    string `knob:"layout"`
	Chunk     int    `knob:"chunk"`
	Precision string `knob:"precision"`
	Library   string `knob:"library"`
	Graph     bool   `knob:"graph"`
	Autotune  bool   `knob:"autotune"`
	Allocator string `knob:"allocator"`
	TrimSync  bool   `knob:"trim_sync"`
	MaxSplit  int    `knob:"max_split"` // MiB
	ViewWhen  string `knob:"view_when"`
	ViewCopy  string `knob:"view_copy"`
	PoolWhere string `knob:"pool_where"`
	Keep      string `knob:"keep"`
	Tape      string `knob:"tape"`
	Stats     string `knob:"stats"`
	Threads   int    `knob:"threads"`
}

// Knobs implements workloads.Workload. Defaults are the preset small with the settings that a careful user would
// choose; presets except naive change only model knobs.
func (Workload) Knobs() []workloads.Knob {
	trim := loop.TrimKnob("return idle blocks of the pool to the device: never, or every K steps")
	trim.Try = []string{never, "every:100"}
	return []workloads.Knob{
		workloads.IntKnob("grid", "cells along a side of the grid (N)", 128, 4, maxGrid).AsModel(),
		workloads.IntKnob("channels", "values of a cell (C): the first half real parts, the second imaginary", 8, 2, maxChannels).AsModel(),
		workloads.IntKnob("hidden", "hidden units of the network (H)", 32, 1, maxHidden).AsModel(),
		workloads.Choice("law", "a cell's next state: mlp (a network), diffuse (towards the neighbours' mean), walk (a quantum walk)", lawMLP, lawDiffuse, lawWalk).AsModel(),
		workloads.Choice("normalise", "mlp: scale a cell's new state to length 1", "on", "off").AsModel(),
		workloads.Choice("border", "neighbours outside the grid: periodic (the other side) or zero", "periodic", borderO).AsModel(),
		workloads.EveryKnob("live", "frames of the live picture: off, or every K steps", "every:10", "off").AsModel(),
		workloads.IntKnob("maps", "maps of a frame: density, change, real and imaginary part of channel 0", maxMaps, 1, maxMaps).AsModel(),
		workloads.IntKnob("scale", "cells along a side of a pixel of the picture; it divides grid", 4, 1, maxGrid).AsModel(),
		workloads.IntKnob("history", "earlier states that are kept", 1, 0, 64).AsModel(),
		workloads.Choice("roi", "cut a region of random size out of each state and keep the last 32", "off", "on").AsModel(),
		implKnob(), layoutKnob(), chunkKnob(),
		loop.PrecisionKnob("rounding of the inputs of matrix products: fp32 (none), tf32, bf16, fp16; sums and state stay float32",
			set{"library": "off"}, "law", "graph"),
		loop.LibraryKnob("matrix products of gemm and split: auto (cuBLAS if it is found, else our own kernel), on (cuBLAS or nothing), off", "law", "graph"),
		graphKnob(),
		loop.AutotuneKnob("search for the fastest tile of the law's kernels when the workload opens; the cost is reported"),
		allocatorKnob(), trim,
		trimSyncKnob(), maxSplitKnob(),
		viewWhenKnob(), viewCopyKnob(), poolWhereKnob(), keepKnob(), tapeKnob(), statsKnob(),
		loop.SyncKnob("when the host thread waits for the device: never, every step, or every K steps", never),
		loop.PackedReads("pixels of the last frame read one by one, each followed by a synchronization, as .item() does; packed is none", 1, 4096),
		loop.ResetKnob("reset the peak-memory counter each step: off, on, or after a synchronization"),
		loop.ThreadsKnob("CPU threads of the host device"),
	}
}

func implKnob() workloads.Knob {
	k := workloads.Choice("impl", "step of the law: fused (one kernel), gemm (two matrix products between kernels), split (one launch per operation, as eager code)",
		implFused, implGemm, implSplit)
	k.Acts = []string{"law", "graph", "alloc"}
	// Per cell a fused step reads and writes the state once, 8C bytes, of the 4(17C + 4H + 4) bytes that split moves.
	to := func(from string, keeps float64) workloads.Answer {
		return workloads.Answer{Remedy: workloads.Fuse, To: implFused, When: set{"impl": from}, Targets: []workloads.Target{{Stage: "law",
			Kernels: []string{"grid_neighbours", "grid_concat", "grid_activate", "grid_update", "grid_square", "grid_sum", "grid_root", "grid_divide", "grid_finish"}, Keeps: keeps}}}
	}
	k.Answers = []workloads.Answer{to(implSplit, fusedShare), to(implGemm, gemmShare)}
	k.Advice = loop.FuseAdvice(implSplit)
	k.PyTorch = lines{
		implFused: "step = torch.compile(step)  # one kernel for neighbours, network and normalization",
		implGemm:  "h = F.elu(torch.addmm(b1, W1, p))  # two matrix products on one [2C, cells] array",
		implSplit: "psi = step(psi)  # eager: one launch per operation",
	}
	return k
}

// Bytes that impl=fused moves, divided by the bytes of the other implementations' pointwise kernels, at C = 16 and H
// = 64: 8C / (4(17C + 4H + 4) - 4(3C + 2H)) for split, where the products' bytes are subtracted, and 8C / (4(10C +
// 2H)) for gemm.
const (
	fusedShare = 8. * 16 / (4 * (14*16 + 2*64 + 4))
	gemmShare  = 8. * 16 / (4 * (10*16 + 2*64))
)

func layoutKnob() workloads.Knob {
	k := workloads.Choice("layout", "order of the state in memory: chw (a plane per channel) or hwc (channels last)", "chw", layoutHW)
	k.Acts = []string{"law", "view", "graph"}
	k.Advice = lines{"chw": "keep the state as [C, N, N]", layoutHW: "x = x.to(memory_format=torch.channels_last)"}
	k.PyTorch = lines{"chw": "x = x.contiguous()", layoutHW: "x = x.to(memory_format=torch.channels_last)"}
	return k
}

func chunkKnob() workloads.Knob {
	k := workloads.CountKnob("chunk", "gemm and split: rows of the grid that a launch takes at a time")
	k.Acts, k.Try = []string{"law", "graph", "alloc"}, []string{}
	k.Advice = lines{whole: "all rows at once", workloads.AnyValue: "torch.cat([step(rows) for rows in psi.split(%s, dim=1)], dim=1)"}
	k.PyTorch = k.Advice
	return k
}

func allocatorKnob() workloads.Knob {
	k := workloads.Choice("allocator", "blocks of an operation: arena (all at open), pool (a caching allocator with PyTorch's rules), driver (one allocation and free each)",
		allocArena, allocPool, allocDriver)
	k.Acts = []string{"alloc", "law", loop.Sync, gpuprof.StageLaunch, gpuprof.StageGap, loop.Backpressure}
	k.Advice = lines{allocArena: "allocate every tensor before the loop and write with out=", allocPool: "unset PYTORCH_NO_CUDA_MEMORY_CACHING"}
	k.PyTorch = lines{allocArena: "torch.mul(a, b, out=buffer)", allocPool: "# the default allocator of torch.cuda",
		allocDriver: "PYTORCH_NO_CUDA_MEMORY_CACHING=1"}
	return k
}

func trimSyncKnob() workloads.Knob {
	k := workloads.Choice("trim_sync", "wait for the device after a trim of the pool", "on", "off")
	k.Acts, k.Try = []string{loop.Sync, gpuprof.StageGap}, []string{}
	k.Advice = lines{"off": "remove torch.cuda.synchronize() after torch.cuda.empty_cache()"}
	k.PyTorch = lines{"on": "torch.cuda.empty_cache(); torch.cuda.synchronize()", "off": "torch.cuda.empty_cache()"}
	return k
}

// maxSplitKnob returns the knob max_split, the size above which the pool never splits a block.
func maxSplitKnob() workloads.Knob {
	k := workloads.Knob{Name: "max_split", Doc: "pool: MiB above which a block is never cut, as max_split_size_mb", Default: "none", Values: []string{"none"}, Accept: "integer >= 21",
		Parse: func(s string) (string, error) {
			n, err := strconv.Atoi(s)
			if err != nil || n <= 20 || n > 1<<20 {
				return "", fmt.Errorf("is not a whole number of MiB above 20 and at most %d", 1<<20)
			}
			return strconv.Itoa(n), nil
		}}
	k.Acts, k.Try = []string{"alloc", gpuprof.StageGap}, []string{"none", "128"}
	k.Advice = lines{"none": "unset max_split_size_mb in PYTORCH_CUDA_ALLOC_CONF", workloads.AnyValue: "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:%s"}
	k.PyTorch = k.Advice
	return k
}

// imagePath returns the stages whose time depends on the knobs of frames.
func imagePath() []string {
	return []string{"view", loop.D2H, "reduce", loop.Sync, loop.Backpressure, gpuprof.StageLaunch, gpuprof.StageGap, "graph"}
}

func viewWhenKnob() workloads.Knob {
	k := workloads.Choice("view_when", "maps of the state: lazy (only for a frame that is shown) or eager (made and copied every step, dropped if not shown)", whenLazy, whenEager)
	k.Acts = imagePath()
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyLess, To: whenLazy, When: set{"view_when": whenEager, "graph": "off"},
		Targets: []workloads.Target{{Stage: "view"}, {Stage: loop.D2H}, {Stage: "reduce"}}, Keeps: func(s set) float64 {
			lazy := workloads.Read[settings](s)
			lazy.ViewWhen = whenLazy
			return lazy.framesPerStep()
		}}}
	k.Advice = lines{whenLazy: "make and copy the maps only in the steps whose frame is drawn"}
	k.PyTorch = lines{whenLazy: "if step % every == 0: frame = maps(psi).cpu()", whenEager: "frame = maps(psi).cpu()  # every step"}
	return k
}

func viewCopyKnob() workloads.Knob {
	k := workloads.Choice("view_copy", "copy of a frame: packed (all maps at once, without a wait) or each (a copy per map, each waited for, as .cpu() in a loop)", copyPacked, copyEach)
	k.Acts = imagePath()
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyUnwaited, To: copyPacked, When: set{"view_copy": copyEach}, Waits: workloads.CountWaits(func(k settings) float64 {
		if k.ViewCopy == copyEach {
			return k.framesPerStep() * float64(k.Maps)
		}
		return 0
	})}}
	k.Advice = lines{copyPacked: "frame = torch.stack(maps).to('cpu', non_blocking=True) into pinned memory, not a .cpu() per map"}
	k.PyTorch = lines{copyPacked: "buffer.copy_(torch.stack(maps), non_blocking=True)", copyEach: "frame = [m.cpu() for m in maps]"}
	return k
}

// framesPerStep returns the mean number of frames that a step makes, shown or not.
func (k settings) framesPerStep() float64 {
	if k.ViewWhen == whenEager {
		return 1
	}
	return workloads.CountPerStep(k.Live)
}

func poolWhereKnob() workloads.Knob {
	k := workloads.Choice("pool_where", "averaging of cells to pixels: device (before the copy) or host (full maps are copied)", "device", whereHost)
	k.Acts = imagePath()
	k.Answers = []workloads.Answer{{Remedy: workloads.CopyLess, To: "device", When: set{"pool_where": whereHost}, Unless: set{"scale": "1"},
		Targets: []workloads.Target{{Stage: loop.D2H}, {Stage: "reduce"}}, Keeps: func(s set) float64 {
			scale := max(workloads.Read[settings](s).Scale, 1)
			return 1 / float64(scale*scale)
		}}}
	k.Advice = lines{"device": "F.avg_pool2d(maps, scale) on the device, then copy the small result"}
	k.PyTorch = lines{"device": "frame = F.avg_pool2d(maps, scale).cpu()", whereHost: "frame = F.avg_pool2d(maps.cpu(), scale)"}
	return k
}

func keepKnob() workloads.Knob {
	k := workloads.Knob{Name: "keep", Doc: "earlier states: device, host (copied each step, and back when a map needs one) or below:M (those under M MiB stay)",
		Default: keepDevice, Values: []string{keepDevice, keepHost}, Accept: "below:M",
		Parse: func(s string) (string, error) {
			text, ok := strings.CutPrefix(s, "below:")
			n, err := strconv.Atoi(text)
			if !ok || err != nil || n < 1 || n > 1<<20 {
				return "", fmt.Errorf("is not below:M with M MiB from 1 to %d", 1<<20)
			}
			return "below:" + strconv.Itoa(n), nil
		}}
	k.Acts, k.Try = []string{"keep", "view", loop.Backpressure, gpuprof.StageLaunch}, []string{keepDevice, keepHost}
	k.Advice = lines{keepDevice: "keep earlier states on the device while they fit", keepHost: "", workloads.AnyValue: "history.append(psi if psi.nbytes < limit else psi.cpu())"}
	k.PyTorch = lines{keepDevice: "history.append(psi)", keepHost: "history.append(psi.cpu())", workloads.AnyValue: "history.append(psi if psi.nbytes < limit else psi.cpu())"}
	return k
}

func tapeKnob() workloads.Knob {
	k := workloads.Choice("tape", "records of a step as a gradient graph has them: off, nodes (one per operation), saved (and every intermediate block kept until the step ends)", "off", tapeNodes, tapeSaved)
	k.Acts = []string{"alloc", "law", gpuprof.StageLaunch, gpuprof.StageGap}
	k.Advice = lines{"off": "with torch.inference_mode(): run the loop"}
	k.PyTorch = lines{"off": "with torch.inference_mode():", tapeNodes: "with torch.no_grad():  # views and version counters are still kept", tapeSaved: "psi = step(psi)  # gradients on"}
	return k
}

func statsKnob() workloads.Knob {
	k := workloads.Choice("stats", "read memory counters: off, each step, or after a synchronization each step", "off", "step", statsSync)
	k.Acts = []string{"stats", loop.Sync, gpuprof.StageLaunch, gpuprof.StageGap, loop.Backpressure}
	k.Answers = []workloads.Answer{{Remedy: workloads.SkipSync, To: "step", When: set{"stats": statsSync}, Waits: workloads.CountWaits(func(k settings) float64 {
		if k.Stats == statsSync {
			return 1
		}
		return 0
	})}}
	k.Advice = lines{"step": "read torch.cuda.memory_allocated() without torch.cuda.synchronize(): the counter is the host's", "off": "read memory counters outside the loop"}
	k.PyTorch = lines{"off": "# no counters in the loop", "step": "torch.cuda.memory_allocated(); torch.cuda.memory_reserved()", statsSync: "torch.cuda.synchronize(); torch.cuda.memory_allocated()"}
	return k
}

// graphKnob returns the knob "graph", which replaces single kernel launches by a captured CUDA graph. It is suggested
// as a remedy only if the other settings allow capture (see capturable).
func graphKnob() workloads.Knob {
	k := loop.GraphKnob("launch the kernels of law and view one by one, or capture them once and replay")
	for _, v := range capturable() {
		k.Answers[0].When[v.knob] = v.only
	}
	return k
}

func capturable() []struct{ knob, only string } {
	return []struct{ knob, only string }{{"pool_trim", never}, {"roi", "off"}, {"allocator", allocArena}, {"tape", "off"}, {"keep", keepDevice}}
}
