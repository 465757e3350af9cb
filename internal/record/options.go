package record

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Sampler measures telemetry outside of the program, of a GPU for example. It samples in its own goroutine from
// Start to Stop, which returns tracks by name.
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

// NsysUse selects the programs that Nsight Systems records.
type NsysUse int

// Values of NsysUse.
const (
	NsysAuto   NsysUse = iota // for programs that are not PyTorch, where nsys is installed
	NsysAlways                // fail where it is not installed
	NsysNever
)

// Watched is a decision of Options.Watch.
type Watched int

// Values of Watched.
const (
	WatchOn     Watched = iota // continue
	WatchEnough                // stop watching
	WatchStop                  // end the program
)

// Options select the program to run and the parts to record.
type Options struct {
	Tool  gpuprof.Tool
	Args  []string // the command; Args[0] is looked up on PATH
	Dir   string   // folder for the recordings; it exists and takes files
	Env   []string // environment of the program; nil is this process's
	Steps int      // steps to record
	Skip  int      // steps to leave out before that
	// SkipExact leaves out all of Skip, however long the steps take. Without it Longest limits the skipped steps
	// too.
	SkipExact bool
	Shapes    bool // record operators' shapes
	Stacks    bool // record Python stacks; with Memory those of C++ too
	// Memory records the history of PyTorch's allocator in place of a trace, from the first use of a device to the
	// last recorded step. It turns Nsight Systems and the CUDA recorder off.
	Memory bool
	// Window is the recorded time in a program without steps; the recording begins after WindowAfter.
	Window, WindowAfter time.Duration
	// Longest limits the recorded steps' total time: the recording ends at the next whole step; 0 means
	// DefaultLongest. A single step may take ten times as long.
	Longest time.Duration
	Nsys    NsysUse
	// CUDA selects the programs that the CUDA recorder records. CUPTI is the path of a libcupti, ProgramsCUPTI, or
	// "" for a search by FindCUPTI. Graphs "whole" makes one record per CUDA graph instead of one per node.
	CUDA   CUDAUse
	CUPTI  string
	Graphs string
	// DriverCUDA is the driver's CUDA release, 1000 * major + 10 * minor; 0 if unknown. AskCUPTI returns the
	// version of a libcupti's interface, from a separate process; nil skips the question.
	DriverCUDA int
	AskCUPTI   func(path string) (int, error)
	// Idle arms the CUDA recorder: it records only when Window asks for it. Rolling records as long as the program
	// runs and keeps the end of the recording, for a live view.
	Idle, Rolling bool
	// RecorderConfig precedes the recorder's settings: lines of "name=number".
	RecorderConfig string
	// StopAfter ends the program once the CUDA recorder has ended. With the hook, Watch ends it.
	StopAfter bool
	// Stdin, Stdout and Stderr are the program's files; it inherits them unchanged.
	Stdin, Stdout, Stderr *os.File
	// Samplers by the prefix of their track names.
	Samplers map[string]Sampler
	// Watch gets the hook's events whenever their file grew while the program runs; ended is closed at the
	// program's end. nil turns the watch off.
	Watch func(h *Hook, ended <-chan struct{}) Watched
	// Log takes the output of a helper program (nsys); nil drops it.
	Log io.Writer
}

// stepFactor limits a single step to this multiple of Longest; the hook has the same value (WITHIN).
const stepFactor = 10

func (o *Options) longestRecording() time.Duration {
	if o.Longest <= 0 {
		return DefaultLongest
	}
	return o.Longest
}
