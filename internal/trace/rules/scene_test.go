package rules_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// scene is a program that is acted out: one host thread, device streams, a
// clock in ns. What it does is recorded as a profiler would; the record comes
// as a trace and as the text of a Kineto file.
type scene struct {
	now    int64           // host clock
	free   map[int64]int64 // by stream: when its last operation ends
	corr   int64
	steps  int
	device model.Device
	on     uint16 // device that what is launched goes to
	events []sceneEvent
	host   *model.HostSamples // of the host, nil none
	native bool               // a program of C++, recorded by nsys
}

type sceneEvent struct {
	kind       model.Kind
	name       string
	start, end int64
	thread     int64
	corr       int64
	stream     int64
	bytes      int64
	blocks     int64
	dir        model.Direction
	memory     model.HostMemory
	stack      string
	graph      int64
	device     uint16
	floats     int64 // elements of a collective of eight ranks
}

const (
	us       = int64(1000)
	begin    = 1_700_000_000_000_000 * us // an epoch in ns, as profilers write it
	hostPID  = 4242
	mainTID  = 4242
	otherTID = 4300
	ownTime  = 2 * us // of an operator around its launch
	callTime = 5 * us
	latency  = 3 * us // from the end of the call to the start on the device
)

func newScene() *scene {
	return &scene{now: begin, free: map[int64]int64{}, corr: 100, device: model.Device{Name: "NVIDIA A100-SXM4-80GB", Major: 8, SMs: 108, TotalBytes: 80 << 30}}
}

func (s *scene) add(e sceneEvent) int {
	if e.thread == 0 {
		e.thread = mainTID
	}
	s.events = append(s.events, e)
	return len(s.events) - 1
}

// step acts out one step.
func (s *scene) step(body func()) {
	i := s.add(sceneEvent{kind: model.Step, name: fmt.Sprintf("ProfilerStep#%d", s.steps), start: s.now})
	if s.native {
		s.events[i].kind, s.events[i].name = model.Annotation, fmt.Sprintf("iteration %d", s.steps)
	}
	s.steps++
	s.now += us
	body()
	s.now += us
	s.events[i].end = s.now
	s.now += us
}

// repeat acts out n steps.
func (s *scene) repeat(n int, body func()) *scene {
	for range n {
		s.step(body)
	}
	return s
}

// work is time the host spends in the program's own code.
func (s *scene) work(ns int64) { s.now += ns }

// in acts out an operator.
func (s *scene) in(name string, body func()) { s.inKind(model.Op, name, "", body) }

func (s *scene) inKind(kind model.Kind, name, stack string, body func()) {
	i := s.add(sceneEvent{kind: kind, name: name, start: s.now, stack: stack})
	s.now += ownTime / 2
	body()
	s.now += ownTime / 2
	s.events[i].end = s.now
}

// call is an API call of a length; it returns its correlation id.
func (s *scene) call(name string, ns int64) int64 {
	s.corr++
	s.add(sceneEvent{kind: model.API, name: name, start: s.now, end: s.now + ns, corr: s.corr})
	s.now += ns
	return s.corr
}

// gpu puts an operation on a stream, after what the stream has.
func (s *scene) gpu(e sceneEvent, ns int64) {
	e.device = s.on
	queue := int64(s.on)*1000 + e.stream
	e.start = max(s.now+latency, s.free[queue])
	e.end = e.start + ns
	s.free[queue] = e.end
	s.add(e)
}

// kernel launches a kernel from the program.
func (s *scene) kernel(name string, ns int64) { s.kernelOn(7, name, ns, 4096) }

func (s *scene) kernelOn(stream int64, name string, ns, blocks int64) {
	c := s.call("cudaLaunchKernel", callTime)
	s.gpu(sceneEvent{kind: model.Kernel, name: name, corr: c, stream: stream, blocks: blocks}, ns)
}

// op launches a kernel from an operator.
func (s *scene) op(op, kernel string, ns int64) { s.in(op, func() { s.kernel(kernel, ns) }) }

// wait is a call that returns when the stream is done.
func (s *scene) wait(name string) {
	var until int64
	for _, t := range s.free {
		until = max(until, t)
	}
	s.call(name, max(callTime, until+latency-s.now))
}

// copy copies; a blocking one returns when it is done.
func (s *scene) copy(stream int64, dir model.Direction, mem model.HostMemory, bytes, ns int64, blocking bool) {
	i := len(s.events)
	c := s.call("cudaMemcpyAsync", callTime)
	name := map[model.Direction]string{
		model.H2D: "Memcpy HtoD (%s -> Device)", model.D2H: "Memcpy DtoH (Device -> %s)", model.D2D: "Memcpy DtoD (Device -> Device)",
	}[dir]
	if strings.Contains(name, "%s") {
		name = fmt.Sprintf(name, map[model.HostMemory]string{model.Pageable: "Pageable", model.Pinned: "Pinned"}[mem])
	}
	s.gpu(sceneEvent{kind: model.Memcpy, name: name, corr: c, stream: stream, bytes: bytes, dir: dir, memory: mem}, ns)
	if blocking {
		s.now = max(s.now, s.free[int64(s.on)*1000+stream]+latency)
		s.events[i].end = s.now
	}
}

// item reads a scalar from the device.
func (s *scene) item() {
	s.in("aten::item", func() {
		s.in("aten::_local_scalar_dense", func() {
			s.copy(7, model.D2H, model.Pageable, 4, 2*us, true)
			s.wait("cudaStreamSynchronize")
		})
	})
}

// loader waits for a batch.
func (s *scene) loader(ns int64) {
	s.inKind(model.Annotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "", func() { s.work(ns) })
}

// end is how the profiler closes a recording.
func (s *scene) end() *scene {
	s.wait("cudaDeviceSynchronize")
	return s
}

// trace is the record as a finished trace.
func (s *scene) trace() *model.Trace {
	t := &model.Trace{Path: "scene.json", Format: model.Kineto, Rank: -1, Events: len(s.events)}
	if s.native {
		t.Format = model.Nsys
	}
	names, lanes := map[string]model.NameID{}, map[int64]uint32{}
	nameOf := func(name string) model.NameID {
		id, ok := names[name]
		if !ok {
			id = model.NameID(len(t.Names))
			names[name] = id
			t.Names = append(t.Names, name)
		}
		return id
	}
	for _, e := range s.events {
		id := nameOf(e.name)
		if e.kind >= model.Kernel {
			for len(t.Devices) <= int(e.device) {
				more := s.device
				more.ID = len(t.Devices)
				t.Devices = append(t.Devices, more)
			}
			t.GPU = append(t.GPU, model.GPU{
				Start: e.start, End: e.end, Corr: e.corr, Bytes: e.bytes, Stream: e.stream, Blocks: e.blocks, Threads: 256, Launch: -1,
				Process: hostPID, Name: id, Kind: e.kind, Dir: e.dir, Memory: e.memory, Graph: e.graph != 0, Device: e.device,
			})
			if e.floats > 0 {
				t.Collectives = append(t.Collectives, model.Collective{Corr: e.corr, Name: nameOf("allreduce"), Element: nameOf("Float"), Size: 8, In: e.floats, Out: e.floats})
			}
			continue
		}
		lane, ok := lanes[e.thread]
		if !ok {
			lane = uint32(len(t.Lanes))
			lanes[e.thread] = lane
			t.Lanes = append(t.Lanes, model.Lane{Process: hostPID, Thread: e.thread})
		}
		h := model.Host{Start: e.start, End: e.end, Corr: e.corr, Name: id, Lane: lane, Kind: e.kind}
		if e.stack != "" {
			at := slices.Index(t.Stacks, e.stack)
			if at < 0 {
				at = len(t.Stacks)
				t.Stacks = append(t.Stacks, e.stack)
			}
			h.Stack = uint32(at + 1)
		}
		t.Inflated = t.Inflated || e.kind == model.Python || e.kind == model.Overhead
		t.Host = append(t.Host, h)
	}
	t.Finish()
	t.Sampled = s.host
	return t
}

// json is the record as the text of a Kineto file, an event a line.
func (s *scene) json() []byte {
	var b strings.Builder
	b.WriteString("{\n\"schemaVersion\": 1,\n")
	if s.device.Name != "" {
		fmt.Fprintf(&b, "\"deviceProperties\": [{\"id\": 0, \"name\": %q, \"totalGlobalMem\": %d, \"computeMajor\": %d, \"computeMinor\": %d, \"numSms\": %d}],\n",
			s.device.Name, s.device.TotalBytes, s.device.Major, s.device.Minor, s.device.SMs)
	}
	b.WriteString("\"traceEvents\": [\n")
	for i, e := range s.events {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(e.json())
	}
	b.WriteString("\n]\n}\n")
	return []byte(b.String())
}

func (e sceneEvent) json() []byte {
	categories := map[model.Kind]string{
		model.Op: "cpu_op", model.Annotation: "user_annotation", model.Step: "user_annotation", model.API: "cuda_runtime", model.Python: "python_function",
		model.Overhead: "overhead", model.Kernel: "kernel", model.Memcpy: "gpu_memcpy", model.Memset: "gpu_memset",
	}
	micro := func(ns int64) json.Number { return json.Number(fmt.Sprintf("%d.%03d", ns/1000, ns%1000)) }
	args := map[string]any{}
	event := map[string]any{"ph": "X", "cat": categories[e.kind], "name": e.name, "ts": micro(e.start), "dur": micro(e.end - e.start), "args": args}
	if e.corr != 0 {
		args["correlation"] = e.corr
	}
	if e.kind >= model.Kernel {
		event["pid"], event["tid"] = e.device, e.stream
		args["device"], args["stream"] = e.device, e.stream
		if e.kind == model.Kernel {
			args["grid"], args["block"] = [3]int64{e.blocks, 1, 1}, [3]int64{256, 1, 1}
		} else {
			args["bytes"] = e.bytes
		}
		if e.floats > 0 {
			args["Collective name"], args["dtype"], args["Group size"] = "allreduce", "Float", 8
			args["In msg nelems"], args["Out msg nelems"] = e.floats, e.floats
		}
		if e.graph != 0 {
			args["graph node id"] = e.graph
		}
	} else {
		event["pid"], event["tid"] = hostPID, e.thread
		stack, recorded, _ := strings.Cut(e.stack, model.ArgsMark)
		if stack != "" {
			args["Call stack"] = stack
		}
		if recorded != "" {
			for i, part := range strings.Split(recorded, opcost.Separator) {
				if part != "" {
					args[[]string{"Input Dims", "Input type", "Input Strides", "Concrete Inputs"}[i]] = json.RawMessage(part)
				}
			}
		}
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // a test's own values
	}
	return text
}
