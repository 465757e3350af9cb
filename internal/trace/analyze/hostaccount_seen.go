package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastDoubtfulShare: samples that may be inside or outside operators count as outside only if at least this share of
// them must be outside; see newSampleSplit.
const leastDoubtfulShare = 0.5

// sampleClasses holds the samples of a thread, each with its time outside operators.
type sampleClasses struct {
	s         *model.HostSamples
	total     float64                  // time of all samples, s
	outside   []float64                // time outside operators by stack, s
	kinds     []string                 // kind of cause by stack; "" in an operator, the loader or the optimizer
	stepped   bool                     // false if the samples cover a window of time without steps
	stepRoots map[model.HostFrame]bool // lines that contain a whole step in their calls
}

// newSampleSplit divides samples into time inside and outside operators. outside is the share of the step in which the
// trace has no event. Samples in C code of an unknown library are doubtful, because the code may be an operator: they
// count as outside only for the time that other samples leave unexplained.
func newSampleSplit(s *model.HostSamples, outside float64, stepped bool) *sampleClasses {
	o := &sampleClasses{s: s, stepped: stepped, outside: make([]float64, len(s.Stacks)), kinds: make([]string, len(s.Stacks)), stepRoots: map[model.HostFrame]bool{}}
	for _, i := range s.Borders {
		o.stepRoots[frameKey(s.Frames[i])] = true
	}
	if !stepped {
		o.addBorders()
	}
	var certain, doubtful float64
	for i := range s.Stacks {
		st := &s.Stacks[i]
		o.total += st.S
		switch o.kinds[i] = o.classifyStack(st); {
		case o.kinds[i] == "":
		case st.Doing == model.InNative && st.Callee == "" && o.kinds[i] == CauseCPU:
			doubtful += st.S
		default:
			certain += st.S
		}
	}
	part := 0.0
	if doubtful > 0 {
		part = min(1, (outside*o.total-certain)/doubtful)
	}
	if part < leastDoubtfulShare {
		part = 0
	}
	for i := range s.Stacks {
		st := &s.Stacks[i]
		switch {
		case o.kinds[i] == "":
		case st.Doing == model.InNative && st.Callee == "" && o.kinds[i] == CauseCPU:
			o.outside[i] = st.S * part
		default:
			o.outside[i] = st.S
		}
	}
	return o
}

// leastBorderShare: in samples without steps, a line is a border, which is not reported as a cause, if at least this
// share of all sampled time is in its calls.
const leastBorderShare = 0.8

func (o *sampleClasses) addBorders() {
	below, all := map[model.HostFrame]float64{}, 0.0
	for i := range o.s.Stacks {
		st := &o.s.Stacks[i]
		all += st.S
		seen := map[model.HostFrame]bool{}
		for _, k := range st.Frames {
			seen[frameKey(o.s.Frames[k])] = true
		}
		for f := range seen {
			below[f] += st.S
		}
	}
	for f, s := range below {
		if s >= leastBorderShare*all {
			o.stepRoots[f] = true
		}
	}
}

// waitsForOthers reports whether a stack waits for other threads or processes of the program, which work meanwhile. A
// change of the waiting line cannot shorten the wait.
func (o *sampleClasses) waitsForOthers(st *model.HostStack) bool {
	return slices.ContainsFunc(st.Frames, func(i int) bool {
		f := &o.s.Frames[i]
		joins := f.File == "threading.py" && strings.HasSuffix(f.Function, "join")
		pools := strings.HasPrefix(f.File, "multiprocessing/") || strings.HasPrefix(f.File, "concurrent/futures/")
		return f.Library && (joins || pools || f.File == "subprocess.py")
	})
}

// waitsForJAX reports whether a stack waits for results of JAX, which computes in its own threads or on a device. JAX
// first spins on the CPU, so the state of the thread does not show the wait.
func (o *sampleClasses) waitsForJAX(st *model.HostStack) bool {
	return slices.ContainsFunc(st.Frames, func(i int) bool {
		f := &o.s.Frames[i]
		return strings.Contains(f.Text, "block_until_ready(") || f.Library && f.File == "jax/_src/array.py"
	})
}

// noCause is the kind of frames of the data loader and the optimizer. A stack with such a frame is not reported as a
// cause of host time outside operators.
const noCause = "none"

const loaderFile = "torch/utils/data/dataloader.py"

// classifyFrame returns the kind of cause that a library frame gives to every stack that contains the frame; "" if the
// frame does not decide the kind.
func classifyFrame(f *model.HostFrame) string {
	starts := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.File, p) })
	}
	ends := func(suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(p string) bool { return strings.HasSuffix(f.Function, p) })
	}
	switch {
	case f.File == loaderFile && ends("__next__"), starts("torch/optim/") && strings.Contains(f.Function, "step"):
		return noCause
	case f.File == loaderFile && ends("__init__", "__iter__", "__del__"):
		return CauseWorkers
	case f.File == "torch/serialization.py" && strings.Contains(f.Function, "save"), starts("safetensors/", "torch/distributed/checkpoint/"):
		return CauseCheckpoint
	case starts("jax/_src/compiler.py", "jax/_src/interpreters/mlir.py", "jax/_src/interpreters/partial_eval.py", "torch/_dynamo/convert_frame.py", "torch/_inductor/compile_fx.py", "numba/core/compiler.py"):
		return CauseCompiler
	case starts("logging/", "tqdm/", "wandb/", "tensorboard", "torch/utils/tensorboard/", "mlflow/"):
		return CauseLogging
	}
	return ""
}

// classifyStack returns the kind of cause of a stack; "" in an operator, the loader or the optimizer.
func (o *sampleClasses) classifyStack(st *model.HostStack) string {
	if kind, decided := o.classifyByFrames(st); decided {
		return kind
	}
	if o.s.Facts.Anomaly && o.keepsTraceback(st) {
		return "" // the time belongs to the operator whose traceback is stored
	}
	leaf := &o.s.Frames[st.Frames[len(st.Frames)-1]]
	framework := st.Callee == "torch" || leaf.Library && strings.HasPrefix(leaf.File, "torch/")
	switch {
	case !o.stepped && ((st.Doing == model.Blocked || st.Doing == model.ForLock) && o.waitsForOthers(st) || o.waitsForJAX(st)):
		return causeOthers
	case st.Doing == model.ForLock:
		return CauseLock
	case framework && st.Doing == model.InPython && leaf.Library:
		return causeFramework
	case framework && st.Doing != model.InPython:
		return ""
	case st.Doing == model.Blocked:
		return CauseBlocked
	}
	return CauseCPU
}

// classifyByFrames returns the kind of cause of a stack if one of its frames decides the kind. Otherwise decided is
// false, and the state of the thread decides.
func (o *sampleClasses) classifyByFrames(st *model.HostStack) (kind string, decided bool) {
	for _, i := range st.Frames {
		f := &o.s.Frames[i]
		if !f.Library {
			if strings.HasPrefix(f.Text, "print(") && kind == "" {
				kind = CauseLogging
			}
			continue
		}
		switch k := classifyFrame(f); k {
		case "":
		case noCause:
			return "", true
		case CauseLogging:
			kind = k
		default:
			return k, true
		}
	}
	return kind, kind != ""
}

// KeepsTraceback reports whether a stack is formatting the traceback that anomaly detection stores for an operator.
func KeepsTraceback(frames []model.HostFrame) bool {
	return slices.ContainsFunc(frames, func(f model.HostFrame) bool {
		return f.Library && (f.File == "traceback.py" || f.File == "linecache.py" || f.File == "torch/fx/traceback.py")
	})
}

func (o *sampleClasses) keepsTraceback(st *model.HostStack) bool {
	var frames []model.HostFrame
	for _, i := range st.Frames {
		frames = append(frames, o.s.Frames[i])
	}
	return KeepsTraceback(frames)
}

// blockedOutside returns the share of the blocked samples that are outside operators, 1 without blocked samples.
// Fetches from the data loader do not count.
func (o *sampleClasses) blockedOutside() float64 {
	var in, all float64
	for i := range o.s.Stacks {
		if st := &o.s.Stacks[i]; (st.Doing == model.Blocked || st.Doing == model.ForLock) && !o.isFetching(st) {
			all += st.S
			in += o.outside[i]
		}
	}
	if all == 0 {
		return 1
	}
	return in / all
}

func (o *sampleClasses) isFetching(st *model.HostStack) bool {
	return slices.ContainsFunc(st.Frames, func(i int) bool {
		f := &o.s.Frames[i]
		return f.File == loaderFile && strings.HasSuffix(f.Function, "__next__")
	})
}

// lockShare returns the share of the blocked time outside operators in which the thread waits for the GIL.
func (o *sampleClasses) lockShare() float64 {
	var lock, all float64
	for i := range o.s.Stacks {
		switch o.s.Stacks[i].Doing {
		case model.ForLock:
			lock += o.outside[i]
			fallthrough
		case model.Blocked:
			all += o.outside[i]
		}
	}
	if all == 0 {
		return 0
	}
	return lock / all
}
