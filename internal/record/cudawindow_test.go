//go:build linux && !race

// Programs are started, and what is looked at is done by them: the race detector sees nothing of it.

package record

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// armedBed is a program that waits for windows and launches until it is told to end.
type armedBed struct {
	*testbed
	end func() *Result
}

// arm starts the C program under an armed recorder with the libcupti of a release.
func arm(t *testing.T, release, config string) *armedBed {
	t.Helper()
	b := newCUDA(t, release, "1", "20", "until", "0")
	stop := filepath.Join(b.work, "stop")
	b.env = setEnviron(b.env, map[string]string{"TEST_UNTIL": stop})
	b.options.Idle, b.options.RecorderConfig = true, "flush_ms=1\n"+config
	ended := make(chan *Result, 1)
	go func() { ended <- b.run() }()
	var once *Result
	a := &armedBed{b, func() *Result {
		if once == nil {
			if err := os.WriteFile(stop, []byte(`"end"`), 0o600); err != nil {
				t.Error(err)
			}
			once = <-ended
		}
		return once
	}}
	t.Cleanup(func() { a.end() })
	for !anyArmed(readCUDA(b.dir)) {
		select {
		case r := <-ended:
			t.Fatalf("the program has ended: %+v", r)
		case <-time.After(time.Millisecond):
		}
	}
	return a
}

// window is one of the armed program that is bounded by time; it begins once read has returned for the first time.
func (a *armedBed) window(length time.Duration, look func(ctx context.Context, path string) stepsSeen) *Result {
	a.t.Helper()
	if err := MayRecord(a.dir); err != nil {
		a.t.Fatal(err)
	}
	o := a.options
	o.WindowAfter, o.Window = length, 0
	w := newStretch(&o, a.dir)
	for _, path := range append(listRecordings(a.dir), listTraces(a.dir)...) {
		w.old[path] = true
	}
	w.look = look
	r, err := w.recordWindow(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// began is when the first kernel of a trace began, where its window does, and when the last operation did.
func began(tr *model.Trace) (first, last int64) {
	first = math.MaxInt64
	for i := range tr.GPU {
		if last = max(last, tr.GPU[i].Start); tr.GPU[i].Kind == model.Kernel {
			first = min(first, tr.GPU[i].Start)
		}
	}
	return first, last
}

// A window ends at its time, by the records' own, however late it is that the recorder is asked to stop: here the look at
// the recording takes until it reaches far beyond.
func TestCUDAWindowIsBounded(t *testing.T) {
	const length = 5 * time.Millisecond
	for _, release := range []string{"12.4", "13.5"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			a := arm(t, release, "")
			behind := 0 // operations that lie after the window, at least
			r := a.window(length, func(_ context.Context, path string) stepsSeen {
				for behind < 500 {
					tr := readRecording(t, path)
					if len(tr.GPU) == 0 {
						continue
					}
					first, _ := began(tr)
					behind = 0
					for i := range tr.GPU {
						if tr.GPU[i].Start > first+int64(length) {
							behind++
						}
					}
				}
				return stepsSeen{}
			})
			tr := recording(t, r)
			if first, last := began(tr); last > first+int64(length) {
				t.Errorf("operations begin until %d ns after the first one", last-first)
			}
			// Each operation has a call, which was left out with it, or just before the end of the window.
			if len(r.CUDA) != 1 || r.CUDA[0].LeftOut < int64(2*behind-1) || r.CUDA[0].LeftOut >= r.CUDA[0].Records || tr.Truncated || len(r.Warnings) != 0 {
				t.Errorf("%d operations lay after the window; %+v, %v", behind, r.CUDA, r.Warnings)
			}
		})
	}
}

// The look at a recording that has shown no steps ends with the window.
func TestLookEndsWithTheWindow(t *testing.T) {
	o := &Options{WindowAfter: time.Minute, Window: time.Second}
	w := newStretch(o, t.TempDir())
	w.first = time.Unix(1_700_000_000, 0)
	asked := 0
	w.look = func(ctx context.Context, _ string) stepsSeen {
		until, bounded := ctx.Deadline()
		if asked++; bounded != (asked == 1) || bounded && !until.Equal(w.first.Add(61*time.Second)) {
			t.Errorf("look %d ends at %s, bounded %t", asked, until, bounded)
		}
		return stepsSeen{}
	}
	w.lookInTime(t.Context(), "x", stepsSeen{})
	w.lookInTime(t.Context(), "x", stepsSeen{steps: 3}) // its window is as long as the steps take
	if asked != 2 {
		t.Errorf("looked %d times", asked)
	}
}

// An armed program is recorded whenever it is asked for, by its folder and by its process; each recording is whole, and
// has only what its window has.
func TestCUDATwoWindows(t *testing.T) {
	for _, release := range []string{"11.7", "12.9", "13.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			a := arm(t, release, "")
			var traces []string
			var end int64
			for n := range 3 {
				if dir, err := ArmedFolder(a.dir); err != nil || dir != a.dir {
					t.Fatal(dir, err)
				}
				r := a.window(time.Millisecond, func(context.Context, string) stepsSeen { return stepsSeen{} })
				tr := recording(t, r)
				first, last := began(tr)
				kernels, _, _, _ := counted(tr)
				if kernels == 0 || first <= end || tr.Truncated || tr.Devices[0].Name != "gpuprof simulated device" || len(r.CUDA) != 1 || r.CUDA[0].Ended != "asked" {
					t.Errorf("window %d: %d kernels from %d on, after %d; truncated %t, %+v, %+v", n, kernels, first, end, tr.Truncated, tr.Devices, r.CUDA)
				}
				for i := range tr.GPU {
					if g := &tr.GPU[i]; g.Kind == model.Kernel && tr.Name(g.Name) != "null" {
						t.Fatalf("window %d has a kernel %q", n, tr.Name(g.Name))
					}
				}
				traces, end = append(traces, r.Traces...), last
			}
			r := a.end()
			if r.ExitCode != 0 || a.out != "done 1\n" || a.err != "" || len(r.Traces) != 3 || len(r.Warnings) != 0 {
				t.Errorf("exit code %d, %q, %q; windows %v, at the end %v; %v", r.ExitCode, a.out, a.err, traces, r.Traces, r.Warnings)
			}
		})
	}
}

// A window that reaches the recorder's limit ends there: what the recorder began next lies after it, and is counted.
func TestCUDAWindowOfTheLimit(t *testing.T) {
	a := arm(t, "12.9", "max_mb=1\n")
	o := a.options
	o.WindowAfter = time.Hour
	r, err := Window(t.Context(), a.dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	tr := recording(t, r)
	if kernels, _, _, _ := counted(tr); kernels == 0 || len(r.CUDA) != 1 || r.CUDA[0].Ended != "limit" || len(r.Warnings) != 1 || r.Warnings[0].Code != "recording-limit" {
		t.Errorf("%d kernels; %+v, %v", kernels, r.CUDA, r.Warnings)
	}
	if end := a.end(); len(end.Traces) != 1 {
		t.Errorf("traces %v at the end", end.Traces)
	}
}
