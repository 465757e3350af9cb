// Package perfetto writes runs and analyses in the trace event format, for
// ui.perfetto.dev and chrome://tracing.
//
// A run's file speaks PyTorch's dialect of the format as well: the stages of
// the example step are operators (cpu_op) on the host's row and kernels or
// copies on a stream's, joined by correlation numbers and arrows, and the step
// itself is a ProfilerStep# range. So what reads a PyTorch trace reads it, gpuprof
// analyze among them. Kernels come from a separate marked pass, whose times
// differ from the example step's: they have rows of their own and a category
// that a reader does not count as the device's work, or it would count twice.
//
// Times are microseconds with three decimals, that is whole nanoseconds.
package perfetto

import (
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Categories of PyTorch's profiler.
const (
	catOp         = "cpu_op"
	catAnnotation = "user_annotation"
	catRuntime    = "cuda_runtime"
	catKernel     = "kernel"
	catMemcpy     = "gpu_memcpy"
	catMarked     = "gpu_user_annotation"
	catLaunch     = "ac2g" // arrow from a launch to what it launched
)

// textLimit bounds names and labels, in runes.
const textLimit = 200

// Write writes the example steps, the samples and the telemetry of runs. Each run's time
// begins with the recording of its example step, whose launches come before
// the step itself; where in the run that was is not recorded.
// Runs follow each other. A run without times adds its name alone.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("a Perfetto trace")
	}
	e := newEncoder(w, []arg{
		{"kind", document.Timeline},
		{"schema_version", document.Version(document.Timeline)},
		{"tool", gpuprof.Tool{Name: "gpuprof", Version: runs[0].Tool.Version, Commit: runs[0].Tool.Commit}},
		{"displayTimeUnit", "ms"},
		{"otherData", map[string]string{"about": "each run's example step (ProfilerStep) and what of its neighbours was on the device or the host between its launch and its end; kernels are from a separate marked pass; samples and telemetry are of the whole run, from its begin at the same zero"}},
		{"deviceProperties", devices(runs)},
	})
	vary := view.Vary(runs)
	f := &flows{}
	base := int64(0)
	for i, r := range runs {
		base = writeRun(e, f, i, r, runName(r, vary), base)
	}
	return e.close()
}

func runName(r *gpuprof.Run, vary []string) string {
	name := view.Subject(r)
	if len(vary) > 0 {
		name += " " + view.SettingText(r, vary)
	}
	if r.Status != gpuprof.Complete {
		name += " (" + view.Cut(view.Status(r), 40) + ")"
	}
	return view.Cut(name, textLimit)
}

// device is an entry of deviceProperties.
type device struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Memory   int64  `json:"totalGlobalMem,omitempty"`
	SMs      int    `json:"numSms,omitempty"`
	MajorCap int    `json:"computeMajor,omitempty"`
	MinorCap *int   `json:"computeMinor,omitempty"`
}

// devices lists each run's device under the run's own number: two runs'
// steps are not one device's work.
func devices(runs []*gpuprof.Run) []device {
	out := make([]device, len(runs))
	for i, r := range runs {
		out[i] = device{ID: i, Name: view.Cut(view.DeviceName(r), textLimit), Memory: max(0, r.Device.Memory)}
		if r.Device.Kind != "cuda" {
			continue
		}
		out[i].SMs = max(0, r.Device.Cores)
		// "sm_90" is compute capability 9.0, "sm_103" is 10.3.
		if n, err := strconv.Atoi(strings.TrimPrefix(r.Device.Arch, "sm_")); err == nil && n >= 10 && n < 1000 {
			minor := n % 10
			out[i].MajorCap, out[i].MinorCap = n/10, &minor
		}
	}
	return out
}

// maxSeconds is more than a run lasts; thousands of runs of that length fit
// behind each other.
const maxSeconds = 1e6

// nanos converts seconds; ok is false for what is no time.
func nanos(seconds float64) (ns int64, ok bool) {
	if math.IsNaN(seconds) || math.Abs(seconds) > maxSeconds {
		return 0, false
	}
	return int64(math.Round(seconds * 1e9)), true
}
