package rules_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// reduceName is allReduce as sentences have it.
const reduceName = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

// held acts out a kernel that is launched on a stream and begins late.
func (s *scene) held(stream int64, name string, late, ns int64) {
	s.free[stream] = max(s.free[stream], s.now+callTime+latency) + late
	s.kernelOn(stream, name, ns, 4096)
}

// What holds a launched operation up is named, with the stream, the operation
// and the time; the parts add up to the queued time of the step.
func TestQueuedIsExplained(t *testing.T) {
	for _, c := range []struct {
		name string
		body func(s *scene)
		want []string
	}{
		{"a stream waits for an event behind communication", func(s *scene) {
			s.kernelOn(20, allReduce, 300*us, 64)
			s.call("cudaStreamWaitEvent", us)
			s.held(7, "elementwise_kernel", 4000*us, 100*us)
		}, []string{"on stream 7 for an event (cudaStreamWaitEvent), last after communication " + reduceName + " of stream 20"}},
		{"a stream follows a copy of another one", func(s *scene) {
			s.copy(21, model.H2D, model.Pinned, 1<<20, 300*us, false)
			s.held(7, "elementwise_kernel", 4000*us, 100*us)
		}, []string{"on stream 7 after copy Memcpy HtoD of stream 21"}},
		{"a graph begins late, and halts inside", func(s *scene) {
			s.kernel("elementwise_kernel", 100*us)
			id := s.call("cudaGraphLaunch", 20*us)
			s.free[7] += 3000 * us
			s.gpu(sceneEvent{kind: model.Kernel, name: "graph_first", corr: id, stream: 7, graph: 1}, 100*us)
			s.free[7] += 1000 * us
			s.gpu(sceneEvent{kind: model.Kernel, name: "graph_second", corr: id, stream: 7, graph: 2}, 100*us)
		}, []string{"for CUDA graphs to begin after their launch before graph_first", "between the operations of CUDA graphs before graph_second"}},
		{"the call that launches does not return", func(s *scene) {
			c := s.call("cuLaunchKernel", 4000*us)
			s.gpu(sceneEvent{kind: model.Kernel, name: "lazy_kernel", corr: c, stream: 7, blocks: 4096}, 100*us)
		}, []string{"for the call that launches the work to return in cuLaunchKernel"}},
		{"nothing in the trace says why", func(s *scene) {
			s.kernel("elementwise_kernel", 100*us)
			s.held(7, "late_kernel", 4000*us, 100*us)
		}, []string{"for a reason that is not in the trace before late_kernel"}},
		{"many short launches", func(s *scene) {
			for range 40 {
				s.kernel("elementwise_kernel", us)
				s.call("cudaStreamSynchronize", latency+us)
			}
		}, []string{"for single operations to begin after their launch (launch latency)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, act(4, func(s *scene) {
				c.body(s)
				s.wait("cudaDeviceSynchronize")
			}).trace())
			checkExplained(t, a, c.want)
		})
	}
}

// Where the profiler recorded which stream waits for which, that is what is said.
func TestRecordedWaitIsExplained(t *testing.T) {
	var events []string
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	call := func(name string, corr, ts, dur int) {
		add(`{"ph":"X","cat":"cuda_runtime","name":%q,"pid":1,"tid":1,"ts":%d,"dur":%d,"args":{"correlation":%d}}`, name, ts, dur, corr)
	}
	kernel := func(name string, corr, stream, ts, dur int) {
		add(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d}}`, name, stream, ts, dur, stream, corr)
	}
	for i := range 4 {
		at, corr := 1000+i*10_000, 100+i*10
		add(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":9990}`, i, at)
		call("cudaLaunchKernel", corr, at+10, 5)
		kernel(allReduce, corr, 30, at+20, 1000)
		call("cudaEventRecord", corr+1, at+30, 2)
		call("cudaLaunchKernel", corr+2, at+40, 5)
		kernel("unrelated_kernel", corr+2, 31, at+1020, 500)
		call("cudaStreamWaitEvent", corr+3, at+50, 2)
		add(`{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":7,"ts":%d,"dur":1,"args":{"cuda_sync_kind":"Stream Wait Event","wait_on_stream":30,"wait_on_cuda_event_record_corr_id":%d,"wait_on_cuda_event_id":5,"stream":7,"correlation":%d,"device":0}}`, at+51, corr+1, corr+3)
		call("cudaLaunchKernel", corr+4, at+60, 5)
		kernel("waiting_kernel", corr+4, 7, at+8000, 1000)
	}
	in, err := kineto.Read(t.Context(), strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), "waits.json", 0)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := analyse(t, in)
	checkExplained(t, a, []string{"on stream 7 for an event of stream 30 (cudaStreamWaitEvent) after communication " + reduceName + " of stream 30"})
}

// checkExplained checks that the first explanation is of queued time and that
// its longest waits are those wanted.
func checkExplained(t *testing.T, a *analyze.Analysis, want []string) {
	t.Helper()
	e := explanation(a, "queued")
	if e == nil {
		t.Fatalf("queued time, %d of %d ns, is not explained: %+v", a.Step.QueuedNS, a.Step.NS, a.Explained)
	}
	var sum int64
	for i, w := range e.Waits {
		if sum += w.NS; i < len(want) && w.For != want[i] {
			t.Errorf("wait %d is %q, want %q", i+1, w.For, want[i])
		}
	}
	if e.NS != a.Step.QueuedNS || math.Abs(float64(sum-e.NS)) > float64(len(e.Waits)) {
		t.Errorf("waits add up to %d of %d ns; the step is queued for %d", sum, e.NS, a.Step.QueuedNS)
	}
	for _, w := range want {
		if !strings.Contains(e.Text, w) {
			t.Errorf("the sentence lacks %q: %s", w, e.Text)
		}
	}
}

func explanation(a *analyze.Analysis, part string) *analyze.Explanation {
	for i := range a.Explained {
		if a.Explained[i].Part == part {
			return &a.Explained[i]
		}
	}
	return nil
}

// In every trace with a device the largest part of the step is explained: its
// name, its time, and which findings speak of it or that none does.
func TestLargestPartIsExplained(t *testing.T) {
	for _, c := range ruleScenes() {
		for _, s := range []func() *scene{c.fires, c.quiet} {
			in, err := kineto.Read(t.Context(), bytes.NewReader(s().json()), c.rule, 0)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := analyse(t, in)
			if len(a.Devices) == 0 {
				continue
			}
			largest := analyze.Part{}
			for _, p := range a.Step.Shown(0) {
				if p.NS > largest.NS {
					largest = p
				}
			}
			if len(a.Explained) == 0 || a.Explained[0].Part != largest.Name || a.Explained[0].NS != largest.NS {
				t.Errorf("%s: the largest part is %+v; explained is %+v", c.rule, largest, a.Explained)
				continue
			}
			e := a.Explained[0]
			if !strings.HasPrefix(e.Text, "Largest part of the ") || !strings.Contains(e.Text, largest.Name) || !strings.Contains(e.Text, "No finding") != (e.ClaimedNS > 0) {
				t.Errorf("%s: claimed %d, and it says %q", c.rule, e.ClaimedNS, e.Text)
			}
			if idle := largest.Means != "" && largest.Name != "outside"; idle && len(e.Waits) == 0 {
				t.Errorf("%s: nothing is said of what the device waited for: %s", c.rule, e.Text)
			}
		}
	}
}
