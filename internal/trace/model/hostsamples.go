package model

// HostClocks holds times, s, and counts of one thread over a time span.
type HostClocks struct {
	WallS, CPUS float64
	DelayS      float64 // ready and waiting for a CPU; negative if unknown
	OthersS     float64 // CPU time of the other threads of the process
	Blocks      float64 // voluntary context switches: the thread blocked
	Preempted   float64 // involuntary context switches
}

// Add adds the clocks of another time span. The run delay of the sum is unknown if either delay is.
func (c *HostClocks) Add(o HostClocks) {
	c.WallS, c.CPUS, c.OthersS = c.WallS+o.WallS, c.CPUS+o.CPUS, c.OthersS+o.OthersS
	c.Blocks, c.Preempted = c.Blocks+o.Blocks, c.Preempted+o.Preempted
	if c.DelayS < 0 || o.DelayS < 0 {
		c.DelayS = -1
		return
	}
	c.DelayS += o.DelayS
}

// ThreadState is the state of a sampled thread.
type ThreadState string

// States of a sampled thread.
const (
	InPython ThreadState = "python"  // runs Python, or C code that holds the GIL
	InNative ThreadState = "native"  // runs C code without the GIL
	Blocked  ThreadState = "blocked" // asleep or waiting
	ForLock  ThreadState = "lock"    // waiting for the GIL
)

// HostFrame is a frame of Python code.
type HostFrame struct {
	File     string // path; of a library, from the package folder on: "torch/optim/sgd.py"
	Function string
	Line     int
	Text     string // the expression that the frame evaluates, "" unknown
	Library  bool   // in the standard library or an installed package
}

// HostStack is a sampled stack, outermost frame first, as indices into HostSamples.Frames.
type HostStack struct {
	Doing  ThreadState
	Callee string  // owner of the code that the innermost frame calls: "torch", "other", "" unknown
	S      float64 // time that the samples represent
	Count  int
	Frames []int
}

// HostLoader holds the settings of the program's data loader.
type HostLoader struct {
	Workers, Batches int // Batches: per epoch, 0 unknown
	Persistent       bool
	Starts           int     // how often the workers were started
	StartS           float64 `json:"start_s"` // time of all starts but the first, s
}

// SampledWindow is the name of the only event in the trace of a Python program without torch.
const SampledWindow = "gpuprof: sampled window"

// HostOptimizer holds the settings of the optimizer that ends a step.
type HostOptimizer struct {
	Class          string
	Foreach, Fused *bool // nil: PyTorch decides
	Parameters     int   // tensors
	Float64        int   // float64 tensors among them
	Elements       int64
}

// HostFacts are settings of a program that can cost time; nil or 0 is unknown.
type HostFacts struct {
	Threads, CPUs int // threads of PyTorch's pool; CPUs available to the process
	Anomaly       bool
	Loader        *HostLoader
	Optimizer     *HostOptimizer
	Memory        HostMemoryUse
}

// HostMemoryUse is the memory of the process and the free memory of the system, bytes; 0 unknown.
type HostMemoryUse struct{ Resident, Available int64 }

// HostSamples are measurements of gpuprof's Python hook on the thread that runs the steps: clocks of recorded steps,
// and stack samples of later steps.
type HostSamples struct {
	Recorded []HostClocks // one per recorded step, or one for the whole recording
	Fetches  []HostClocks // of calls of the data loader in recorded steps
	Sampled  []HostClocks // one per sampled step
	Samples  int
	Frames   []HostFrame
	Stacks   []HostStack
	Borders  []int // indices of the frames on the stack at a step boundary: they run whole steps
	// In recorded steps, some task of the machine waited for a CPU for WaitedS, and the process's control group was
	// throttled for ThrottledS, s; negative if unknown.
	WaitedS, ThrottledS float64
	Facts               HostFacts
	BareS               float64 // duration of a step without recording and sampling, s; 0 unknown
}
