package model

// HostClocks has the advance of a thread's clocks during a time span, s.
type HostClocks struct {
	WallS, CPUS float64
	DelayS      float64 // in which it could run and waited for a CPU; below 0 unknown
	OthersS     float64 // CPU time of the other threads of the process
	Blocks      float64 // how often it blocked (voluntary context switches)
	Preempted   float64 // how often the system took the CPU from it (involuntary ones)
}

// Add adds another time span. A run delay that is unknown in one is unknown in the sum.
func (c *HostClocks) Add(o HostClocks) {
	c.WallS, c.CPUS, c.OthersS = c.WallS+o.WallS, c.CPUS+o.CPUS, c.OthersS+o.OthersS
	c.Blocks, c.Preempted = c.Blocks+o.Blocks, c.Preempted+o.Preempted
	if c.DelayS < 0 || o.DelayS < 0 {
		c.DelayS = -1
		return
	}
	c.DelayS += o.DelayS
}

// Doing is the state of a sampled thread.
type Doing string

// The values of Doing.
const (
	InPython Doing = "python"  // Python, or C code that keeps the interpreter's lock
	InNative Doing = "native"  // C code without that lock
	Blocked  Doing = "blocked" // asleep, or waiting
	ForLock  Doing = "lock"    // waiting for the interpreter's lock
)

// HostFrame is a frame of Python code.
type HostFrame struct {
	File     string // of a library from its own folder on: "torch/optim/sgd.py"
	Function string
	Line     int
	Text     string // the expression that the frame evaluates, "" unknown
	Library  bool   // Python's own library or an installed package
}

// HostStack is a sampled stack, outermost frame first (indices into HostSamples.Frames).
type HostStack struct {
	Doing  Doing
	Callee string  // whose code the innermost frame calls: "torch", "other", "" unknown
	S      float64 // time that its samples represent
	Count  int
	Frames []int
}

// HostLoader has the settings of the program's data loader.
type HostLoader struct {
	Workers, Batches int // Batches counts the batches of an epoch, 0 unknown
	Persistent       bool
	Starts           int     // how often its workers were started
	StartS           float64 `json:"start_s"` // time of the starts, without the first one, s
}

// SampledWindow is the name of the one event in the trace of a Python program that was sampled without torch.
const SampledWindow = "gpuprof: sampled window"

// HostOptimizer has the settings of the optimizer that ends a step.
type HostOptimizer struct {
	Class          string
	Foreach, Fused *bool // nil: PyTorch decides
	Parameters     int   // tensors
	Float64        int   // of these
	Elements       int64
}

// HostFacts are settings of a program that are known to cost time; nil or 0 is unknown.
type HostFacts struct {
	Threads, CPUs int // of PyTorch's pool, and that the process may use
	Anomaly       bool
	Loader        *HostLoader
	Optimizer     *HostOptimizer
	Memory        HostMemoryUse
}

// HostMemoryUse is the memory of the process and the available memory of the system, bytes; 0 unknown.
type HostMemoryUse struct{ Resident, Available int64 }

// HostSamples are the measurements of gpuprof's hook on the thread that makes the steps: its clocks in each recorded
// step, and samples of its stack in later steps.
type HostSamples struct {
	Recorded []HostClocks // by recorded step, or the one window
	Fetches  []HostClocks // of a data loader, in recorded steps
	Sampled  []HostClocks // by sampled step
	Samples  int
	Frames   []HostFrame
	Stacks   []HostStack
	Borders  []int // frames on the stack at the border of a step: each has a whole step below it
	// WaitedS is the time in which some task of the machine waited for a CPU in the recorded steps, ThrottledS the
	// time in which the control group of the process was throttled; negative if unknown.
	WaitedS, ThrottledS float64
	Facts               HostFacts
	BareS               float64 // a step that was neither recorded nor sampled, 0 unknown
}
