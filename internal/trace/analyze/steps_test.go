package analyze

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type step struct {
	Name       string
	Start, End int64
	Full       int64 // end
	Dropped    bool
}

func stepsOf(x *Index) []step {
	var out []step
	for _, s := range x.Steps {
		out = append(out, step{s.Name, s.Host.Start, s.Host.End, s.Full.End, s.Dropped})
	}
	return out
}

func TestSteps(t *testing.T) {
	repeat := func(b *builder, k model.Kind, name string, n int, period, length int64, edit ...func(*model.Host)) {
		for i := range int64(n) {
			b.host(k, strings.ReplaceAll(name, "%d", fmt.Sprint(i)), i*period, i*period+length, edit...)
		}
	}
	for _, c := range []struct {
		name   string
		build  func(*builder)
		source string
		want   []step
		steady model.Spans
		warn   string
	}{
		{"profiler steps, the last kernels run over", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 3, 1000, 990)
			b.launch("a", 900, 5, 950, 1500).launch("b", 1900, 5, 2100, 2200).launch("c", 2900, 5, 2950, 3400)
		}, "ProfilerStep", []step{
			{"ProfilerStep#0", 0, 990, 1500, true}, {"ProfilerStep#1", 1000, 1990, 2200, false}, {"ProfilerStep#2", 2000, 2990, 3400, false},
		}, model.Spans{{Start: 1500, End: 3400}}, ""},
		{"launches between steps are of none", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 2, 1000, 500)
			b.launch("b", 100, 5, 150, 250).launch("a", 700, 5, 750, 800).launch("b", 1100, 5, 1150, 1250)
		}, "ProfilerStep", []step{{"ProfilerStep#0", 0, 500, 500, true}, {"ProfilerStep#1", 1000, 1500, 1500, false}}, model.Spans{{Start: 1000, End: 1500}}, ""},
		{"steps that cover little of the work are refused", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 2, 1000, 500)
			b.launch("b", 100, 5, 150, 151).launch("a", 700, 5, 750, 980).launch("b", 1100, 5, 1150, 1151)
		}, model.WholeTrace, nil, model.Spans{{Start: 0, End: 1500}}, "no-steps"},
		{"the profiler ends within the last step", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 3, 1000, 990)
			b.host(model.Step, "ProfilerStep#3", 3000, 4700)
			b.launch("a", 900, 5, 950, 980).launch("b", 1900, 5, 1950, 1980).launch("c", 2900, 5, 2950, 2980).launch("d", 3900, 5, 3950, 3980)
		}, "ProfilerStep", []step{
			{"ProfilerStep#0", 0, 990, 990, true}, {"ProfilerStep#1", 1000, 1990, 1990, false}, {"ProfilerStep#2", 2000, 2990, 2990, false}, {"ProfilerStep#3", 3000, 3990, 3990, false},
		}, model.Spans{{Start: 1000, End: 1990}, {Start: 2000, End: 2990}, {Start: 3000, End: 3990}}, ""},
		{"one step", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 1, 1000, 990)
		}, "ProfilerStep", []step{{"ProfilerStep#0", 0, 990, 990, false}}, model.Spans{{Start: 0, End: 990}}, "one-step"},
		{"a step recorded twice", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 2, 10_000, 9_000)
			repeat(b, model.Step, "ProfilerStep#%d", 2, 10_000, 9_000)
		}, "ProfilerStep", []step{{"ProfilerStep#0", 0, 9_000, 9_000, true}, {"ProfilerStep#1", 10_000, 19_000, 19_000, false}}, model.Spans{{Start: 10_000, End: 19_000}}, ""},
		{"steps of the thread that launches most", func(b *builder) {
			repeat(b, model.Step, "ProfilerStep#%d", 2, 1000, 500)
			repeat(b, model.Step, "ProfilerStep#%d", 2, 1000, 600, onLane(1))
			b.launch("a", 100, 5, 110, 120, onLane(1)).launch("a", 1100, 5, 1110, 1120, onLane(1))
		}, "ProfilerStep", []step{{"ProfilerStep#0", 0, 600, 600, true}, {"ProfilerStep#1", 1000, 1600, 1600, false}}, model.Spans{{Start: 1000, End: 1600}}, ""},
		{"numbered annotations", func(b *builder) {
			b.host(model.Annotation, "training", 0, 9000)
			repeat(b, model.Annotation, "iteration %d", 4, 1000, 990)
			repeat(b, model.Annotation, "forward", 4, 1000, 300)
		}, "annotation iteration #", []step{
			{"iteration 0", 0, 990, 990, true}, {"iteration 1", 1000, 1990, 1990, false}, {"iteration 2", 2000, 2990, 2990, false}, {"iteration 3", 3000, 3990, 3990, false},
		}, model.Spans{{Start: 1000, End: 1990}, {Start: 2000, End: 2990}, {Start: 3000, End: 3990}}, ""},
		{"batches are fetched between annotations", func(b *builder) {
			repeat(b, model.Annotation, "iteration %d", 4, 1000, 700)
		}, "annotation iteration #, from the start of one to the start of the next", []step{
			{"iteration 0", 0, 1000, 1000, true}, {"iteration 1", 1000, 2000, 2000, false}, {"iteration 2", 2000, 3000, 3000, false},
		}, model.Spans{{Start: 1000, End: 3000}}, ""},
		{"an evaluation between annotations", func(b *builder) {
			repeat(b, model.Annotation, "iteration %d", 3, 1000, 900)
			for i := range int64(3) {
				b.host(model.Annotation, "iteration 9", 7000+i*1000, 7900+i*1000)
			}
		}, "annotation iteration #, from the start of one to the start of the next", []step{
			{"iteration 0", 0, 1000, 1000, true}, {"iteration 1", 1000, 2000, 2000, false}, {"iteration 2", 2000, 2900, 2900, false},
			{"iteration 9", 7000, 8000, 8000, false}, {"iteration 9", 8000, 9000, 9000, false},
		}, model.Spans{{Start: 1000, End: 2900}, {Start: 7000, End: 9000}}, ""},
		{"a part of each step marks its border", func(b *builder) {
			repeat(b, model.Annotation, "forward", 4, 1000, 300)
		}, "annotation forward, from the start of one to the start of the next", []step{
			{"forward", 0, 1000, 1000, true}, {"forward", 1000, 2000, 2000, false}, {"forward", 2000, 3000, 3000, false},
		}, model.Spans{{Start: 1000, End: 3000}}, ""},
		{"two are no pattern", func(b *builder) {
			repeat(b, model.Annotation, "iteration %d", 2, 1000, 900)
		}, "whole trace", nil, model.Spans{{Start: 0, End: 1900}}, "no-steps"},
		{"ranges of libraries are no steps", func(b *builder) {
			repeat(b, model.Annotation, "nccl:all_reduce", 4, 1000, 900)
			repeat(b, model.Annotation, "DistributedDataParallel.forward", 4, 1000, 900)
		}, "whole trace", nil, model.Spans{{Start: 0, End: 3900}}, "no-steps"},
		{"optimizer steps", func(b *builder) {
			b.host(model.Op, "aten::mm", 0, 10)
			repeat(b, model.Annotation, "Optimizer.step#Adam.step", 3, 1000, 100)
		}, "Optimizer.step#Adam.step, from the end of one to the end of the next", []step{
			{"optimizer step 1", 0, 100, 100, true}, {"optimizer step 2", 100, 1100, 1100, false}, {"optimizer step 3", 1100, 2100, 2100, false},
		}, model.Spans{{Start: 100, End: 2100}}, ""},
		{"optimizers that take turns", func(b *builder) {
			for i := range int64(4) { // two updates of the critic, then one of the generator
				for k, name := range []string{"Adam", "Adam", "RMSprop"} {
					at := i*3000 + int64(k)*1000
					b.host(model.Annotation, "Optimizer.step#"+name+".step", at, at+100)
				}
			}
		}, "Optimizer.step#RMSprop.step, from the end of one to the end of the next, of 2 optimizers that take turns", []step{
			{"optimizer step 1", 0, 2100, 2100, true}, {"optimizer step 2", 2100, 5100, 5100, false}, {"optimizer step 3", 5100, 8100, 8100, false}, {"optimizer step 4", 8100, 11100, 11100, false},
		}, model.Spans{{Start: 2100, End: 11100}}, ""},
		{"optimizers of one kind that take turns", func(b *builder) {
			for i := range int64(3) { // networks of other sizes
				for k := range int64(2) {
					at := i*2000 + k*1000
					b.host(model.Annotation, "Optimizer.step#Adam.step", at, at+100)
					for n := range k + 1 {
						b.launch("multi_tensor_apply", at+10+n*10, 5, at+20+n*10, at+25+n*10)
					}
				}
			}
		}, "Optimizer.step#Adam.step, from the end of one to the end of the next, of 2 optimizers that take turns", []step{
			{"optimizer step 1", 0, 100, 100, true}, {"optimizer step 2", 100, 2100, 2100, false}, {"optimizer step 3", 2100, 4100, 4100, false},
		}, model.Spans{{Start: 100, End: 4100}}, ""},
		{"an optimizer after another one", func(b *builder) {
			repeat(b, model.Annotation, "Optimizer.step#SGD.step", 2, 1000, 100)
			for i := range int64(4) {
				b.host(model.Annotation, "Optimizer.step#Adam.step", 2000+i*1000, 2100+i*1000)
			}
		}, "Optimizer.step#Adam.step, from the end of one to the end of the next", []step{
			{"optimizer step 1", 0, 2100, 2100, true}, {"optimizer step 2", 2100, 3100, 3100, false}, {"optimizer step 3", 3100, 4100, 4100, false}, {"optimizer step 4", 4100, 5100, 5100, false},
		}, model.Spans{{Start: 2100, End: 5100}}, ""},
		{"nothing", func(*builder) {}, "whole trace", nil, nil, "no-steps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			c.build(b)
			x := b.index(t)
			if x.StepSource != c.source {
				t.Errorf("source %q, want %q", x.StepSource, c.source)
			}
			if diff := cmp.Diff(c.want, stepsOf(x)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.steady, x.Steady); diff != "" {
				t.Errorf("steady: %s", diff)
			}
			warned := ""
			for _, w := range x.Warnings {
				if w.Code != "no-device" {
					warned = w.Code
				}
			}
			if warned != c.warn {
				t.Errorf("warning %q, want %q", warned, c.warn)
			}
		})
	}
}

// TestOtherProcess: a step goes on until the last operation of its own
// process, not of another one in the same file.
func TestOtherProcess(t *testing.T) {
	b := newBuilder()
	b.lane(1)
	b.t.Lanes[1].Process = 2
	b.host(model.Step, "ProfilerStep#0", 0, 1000)
	b.launch("mine", 900, 5, 1000, 1100)
	b.host(model.API, "cudaLaunchKernel", 900, 905, onLane(1), withExt(50))
	b.gpu(model.Kernel, "theirs", 1000, 5000, func(g *model.GPU) { g.Corr, g.Process, g.Device = 50, 2, 1 })
	x := b.index(t)
	if got := x.Steps[0].Full.End; got != 1100 {
		t.Errorf("the step ends at %d, want 1100", got)
	}
}

func TestTrailing(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(*builder)
		want  int64 // start, -1 none
	}{
		{"after everything", func(b *builder) { b.host(model.API, "cudaDeviceSynchronize", 2000, 2500) }, 2000},
		{"of a context", func(b *builder) { b.host(model.API, "cuCtxSynchronize", 2000, 2500) }, 2000},
		{"inside the last step", func(b *builder) { b.host(model.API, "cudaDeviceSynchronize", 900, 950) }, -1},
		{"something is launched after it", func(b *builder) {
			b.host(model.API, "cudaDeviceSynchronize", 2000, 2500).launch("late", 2600, 5, 2700, 2800, onLane(1))
		}, -1},
		{"of a stream", func(b *builder) { b.host(model.API, "cudaStreamSynchronize", 2000, 2500) }, -1},
		{"the last of several", func(b *builder) {
			b.host(model.API, "cudaDeviceSynchronize", 500, 600).host(model.API, "cudaDeviceSynchronize", 2000, 2500, onLane(1))
		}, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder().host(model.Step, "ProfilerStep#0", 0, 1000).launch("k", 100, 5, 200, 300)
			c.build(b)
			x := b.index(t)
			got := int64(-1)
			if x.Trailing >= 0 {
				got = x.T.Host[x.Trailing].Start
			}
			if got != c.want {
				t.Errorf("at %d, want %d", got, c.want)
			}
		})
	}
}

func TestLead(t *testing.T) {
	b := newBuilder().host(model.Step, "ProfilerStep#0", 0, 1000).launch("k", 700, 5, 900, 950)
	d := b.index(t).Devices[0]
	if want := (Waits{StarvedNS: 700, QueuedNS: 200}); d.InitialIdle != want {
		t.Errorf("%+v, want %+v", d.InitialIdle, want)
	}
	if d.Starved.Total() != 700+50 || d.Queued.Total() != 200 {
		t.Errorf("the waits before and after the only step's operation are not counted: starved %v, queued %v", d.Starved, d.Queued)
	}
	b = newBuilder().host(model.Step, "ProfilerStep#0", 0, 1000).host(model.Step, "ProfilerStep#1", 1000, 2000).launch("k", 700, 5, 900, 950).launch("k", 1700, 5, 1900, 1950)
	if d = b.index(t).Devices[0]; d.InitialIdle.StarvedNS != 700 || d.Starved.Total() != 750 {
		t.Errorf("the lead of a step left out is counted: %+v, starved %v", d.InitialIdle, d.Starved)
	}
	b = newBuilder().host(model.Step, "ProfilerStep#0", 0, 1000).gpu(model.Kernel, "k", 900, 950)
	if want := (Waits{UnknownNS: 900}); b.index(t).Devices[0].InitialIdle != want {
		t.Errorf("no launch: want %+v", want)
	}
}

// A TPU's recording without launches is judged while the devices work: the profiler starts and stops around it.
func TestWindowWithoutLaunches(t *testing.T) {
	const ms = 1_000_000
	record := func(launched bool) *Index {
		b := newBuilder()
		b.t.Format = model.XLA
		b.host(model.Op, "threading.py:323 wait", 0, 1000*ms)
		for i := range int64(10) {
			at := 400*ms + i*ms
			if launched {
				b.launch("fusion", at-ms, 10, at, at+ms)
			} else {
				b.gpu(model.Kernel, "fusion", at, at+ms)
			}
		}
		return b.index(t)
	}
	alone, called := record(false), record(true)
	if want := (model.Spans{{Start: 400 * ms, End: 410 * ms}}); !slices.Equal(alone.Steady, want) {
		t.Errorf("judged %v, want %v", alone.Steady, want)
	}
	if !slices.ContainsFunc(alone.Warnings, func(w gpuprof.Warning) bool { return w.Code == "device-work-only" }) {
		t.Errorf("no warning of the rest: %v", alone.Warnings)
	}
	if n := called.Steady.Total(); n != 1000*ms {
		t.Errorf("with launches, %d ns are judged", n)
	}
}
