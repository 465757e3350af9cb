package record

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Sampler measures telemetry outside the program, such as a GPU's, in its own goroutine from Start to Stop. Stop
// returns tracks by name.
type Sampler interface {
	Start(ctx context.Context, every time.Duration)
	Stop() map[string]gpuprof.Track
}

// Defaults of Options.
const (
	DefaultSkip    = 10
	DefaultLongest = time.Minute
)

// NsysUse selects the programs that Nsight Systems records.
type NsysUse int

// Values of NsysUse.
const (
	NsysAuto   NsysUse = iota // record programs other than PyTorch, if nsys is installed
	NsysAlways                // return an error if nsys is not installed
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
	Dir   string   // existing, writable folder for the recordings
	Env   []string // environment of the program; nil: this process's
	Steps int      // steps to record
	Skip  int      // steps to leave out before the recorded ones
	// SkipExact leaves out all of Skip, even if these steps take longer than Longest.
	SkipExact bool
	Shapes    bool // record operators' shapes
	Stacks    bool // record Python stacks; with Memory also C++ stacks
	// Memory records the history of PyTorch's allocator instead of a trace, from the first use of a device to the last
	// recorded step. Nsight Systems and the CUDA recorder are then off.
	Memory bool
	// Window is the recorded time of a program without steps; it begins after WindowAfter.
	Window, WindowAfter time.Duration
	// Longest (0: DefaultLongest) limits the total time of the recorded steps. The recording ends with the step that
	// exceeds Longest, or within a step at stepFactor times Longest.
	Longest time.Duration
	Nsys    NsysUse
	// CUDA selects the programs for the CUDA recorder. CUPTI is the path of a libcupti, ProgramsCUPTI, or "" for
	// FindCUPTI's choice. Graphs "whole" records a CUDA graph as one operation instead of one per node.
	CUDA   CUDAUse
	CUPTI  string
	Graphs string
	// DriverCUDA is the driver's CUDA release, 1000 * major + 10 * minor; 0 if unknown. AskCUPTI returns a libcupti's
	// interface version from a separate process; nil leaves versions unknown.
	DriverCUDA int
	AskCUPTI   func(path string) (int, error)
	// Idle makes the CUDA recorder wait for requests of the function Window. Rolling records as long as the program runs
	// and keeps only the end, for a live view.
	Idle, Rolling bool
	// RecorderConfig holds "name=number" lines that precede the recorder's settings.
	RecorderConfig string
	// StopAfter ends the program once the CUDA recorder has ended; for the hook, Watch decides.
	StopAfter bool
	// Stdin, Stdout and Stderr are inherited by the program unchanged.
	Stdin, Stdout, Stderr *os.File
	// Samplers by the prefix of their track names.
	Samplers map[string]Sampler
	// Watch is called with the hook's events whenever their file grew. ended is closed when the program ends.
	Watch func(h *Hook, ended <-chan struct{}) Watched
	// Log receives the output of a helper program (nsys); nil discards it.
	Log io.Writer
}

// stepFactor limits a single step to this multiple of Longest. The constant WITHIN of the hook must be equal.
const stepFactor = 10

func (o *Options) longestRecording() time.Duration {
	if o.Longest <= 0 {
		return DefaultLongest
	}
	return o.Longest
}
