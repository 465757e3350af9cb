package record

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Sampler is telemetry of something beside the program, a GPU say: it samples
// in a goroutine of its own from Start to Stop, which returns tracks by name.
type Sampler interface {
	Start(ctx context.Context, every time.Duration)
	Stop() map[string]gpuprof.Track
}

// Defaults of Options.
const (
	DefaultSteps       = 5
	DefaultSkip        = 10
	DefaultWindow      = 2 * time.Second
	DefaultWindowAfter = 20 * time.Second
	DefaultLongest     = time.Minute
)

// NsysUse says when Nsight Systems records the program.
type NsysUse int

// Values of NsysUse.
const (
	NsysAuto   NsysUse = iota // for programs that are not PyTorch, where nsys is installed
	NsysAlways                // fail where it is not installed
	NsysNever
)

// Watched is what becomes of the watch.
type Watched int

// Values of Watched.
const (
	WatchOn     Watched = iota // go on
	WatchEnough                // enough was seen
	WatchStop                  // the program is to end
)

// Options say what to run and what to record of it.
type Options struct {
	Tool  gpuprof.Tool
	Args  []string // the command; Args[0] is looked up on PATH
	Dir   string   // folder for the recordings; it exists and takes files
	Env   []string // environment of the program; nil is this process's
	Steps int      // steps to record
	Skip  int      // steps to leave out before that
	// SkipExact leaves out all of Skip, however long they take. Otherwise no more
	// are left out than Longest allows.
	SkipExact bool
	Shapes    bool // record operators' shapes
	Stacks    bool // record Python stacks; with Memory those of C++ too
	// Memory records the history of PyTorch's allocator, from the first use of a device
	// to the last recorded step, in place of a trace. Nsight Systems and the CUDA recorder have no part in it.
	Memory bool
	// Window is recorded once WindowAfter has gone by in a program that shows
	// no step.
	Window, WindowAfter time.Duration
	// Longest is what recorded steps take together before the recording ends at
	// the next whole step; 0 is DefaultLongest. A single step may take ten times it.
	Longest time.Duration
	Nsys    NsysUse
	// CUDA says when the CUDA recorder records the program, CUPTI with which libcupti: a
	// path, ProgramsCUPTI, or "" for what FindCUPTI finds. Graphs is "whole" for one record a
	// graph in place of one a node.
	CUDA   CUDAUse
	CUPTI  string
	Graphs string
	// DriverCUDA is the CUDA release of the driver, 1000 times the major number and 10 times
	// the minor one; 0 unknown. AskCUPTI returns the version of a libcupti's interface, from a
	// process of its own; nil asks none.
	DriverCUDA int
	AskCUPTI   func(path string) (int, error)
	// Idle arms the CUDA recorder: it records when Window asks for it, and not before. Rolling
	// records as long as the program runs and keeps the end of that, for a view of the running program.
	Idle, Rolling bool
	// RecorderConfig is put before the recorder's settings: lines of "name=number".
	RecorderConfig string
	// StopAfter ends the program once the CUDA recorder has ended. Watch does it for the hook.
	StopAfter bool
	// Stdin, Stdout and Stderr are the program's, handed on as they are.
	Stdin, Stdout, Stderr *os.File
	// Samplers by the prefix of their tracks' names.
	Samplers map[string]Sampler
	// Watch is told what the hook has told, whenever that grew while the program runs;
	// ended is closed when it has ended. nil for no watch.
	Watch func(h *Hook, ended <-chan struct{}) Watched
	// Log takes what a helper program (nsys) says; nil drops it.
	Log io.Writer
}

// within is how many times Longest a single step may take: the hook's WITHIN.
const within = 10

func (o *Options) longest() time.Duration {
	if o.Longest <= 0 {
		return DefaultLongest
	}
	return o.Longest
}
