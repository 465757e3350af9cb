// Package perfetto writes runs and analyses in the trace event format, for ui.perfetto.dev and chrome://tracing.
//
// A run's file follows PyTorch's conventions, so that readers of PyTorch traces, including gpuprof analyze, can read
// it. The stages of the example step are operators (cpu_op) on the host's row, and kernels or copies on a stream's row;
// correlation numbers and arrows link them. The step is a ProfilerStep# range. Single kernels come from a separate
// marked pass with other times. They have their own rows, and a category that readers do not count as device work, so
// that no work counts twice.
//
// Times are microseconds with three decimals, which are whole nanoseconds.
package perfetto

import (
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/sweep"
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
	catLaunch     = "ac2g" // arrow from a launch to the launched operation
)

// textLimit limits names and labels, in runes.
const textLimit = 200

// Write writes the example steps, samples and telemetry of runs, one run after the other. The example step comes at a
// run's start, since its real time within the run is not recorded. A run without times has only its name.
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
		{"deviceProperties", listDevices(runs)},
	})
	vary := sweep.Vary(runs)
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
		name += " " + sweep.SettingText(r, vary)
	}
	if r.Status != gpuprof.Complete {
		name += " (" + view.Cut(view.Status(r), 40) + ")"
	}
	return view.Cut(name, textLimit)
}

type device struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Memory   int64  `json:"totalGlobalMem,omitempty"`
	SMs      int    `json:"numSms,omitempty"`
	MajorCap int    `json:"computeMajor,omitempty"`
	MinorCap *int   `json:"computeMinor,omitempty"`
}

// listDevices lists each run's device with the run's number as ID: viewers must not take two runs for work of one
// device.
func listDevices(runs []*gpuprof.Run) []device {
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

// maxSeconds is longer than any run. The times of a file have room for thousands of such runs.
const maxSeconds = 1e6

// secondsToNS converts seconds to ns; ok is false for NaN and beyond maxSeconds.
func secondsToNS(seconds float64) (ns int64, ok bool) {
	if math.IsNaN(seconds) || math.Abs(seconds) > maxSeconds {
		return 0, false
	}
	return int64(math.Round(seconds * 1e9)), true
}
