package xla_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/xla"
)

// Fields of messages of protocol buffers.
var (
	number = tracetest.ProtoNumber
	text   = tracetest.ProtoText
)

func entry(field int, key uint64, name string) []byte {
	return text(field, number(1, key), text(2, number(1, key), text(2, []byte(name))))
}

// An event of the two forms: times in ns, one correlation id.
type planned struct {
	id         uint64 // of its name
	start, end uint64
	corr       uint64
}

const base = 1_000_000

// space writes a host's plane and a device's: three calls of a function, each with a launch and a kernel.
func space() []byte {
	names := map[uint64]string{1: "PjitFunction(step)", 2: "cuLaunchKernel", 3: "MemcpyH2D", 4: "gemm_fusion_dot", 5: "$train.py:7 main"}
	plane := func(name, line string, events []planned) []byte {
		var fields [][]byte
		fields = append(fields, number(1, 3), text(2, []byte(name)), entry(5, 1, "correlation_id"), entry(5, 2, "kernel_details"), entry(5, 3, "grid:2,3,1 block:64,1,1"))
		for id := range uint64(5) {
			fields = append(fields, entry(4, id+1, names[id+1]))
		}
		var all [][]byte
		all = append(all, number(1, 7), text(2, []byte(line)), number(3, base))
		for _, e := range events {
			f := [][]byte{number(1, e.id), number(2, (e.start-base)*1000), number(3, (e.end-e.start)*1000)}
			if e.corr > 0 {
				f = append(f, text(4, number(1, 1), number(3, e.corr)))
			}
			if e.id == 4 {
				f = append(f, text(4, number(1, 2), number(7, 3)))
			}
			all = append(all, text(4, f...))
		}
		return text(1, append(fields, text(3, all...))...)
	}
	host, gpu := program()
	return append(plane("/host:CPU", "python", host), plane("/device:GPU:1", "Stream #13(Compute)", gpu)...)
}

func program() (host, gpu []planned) {
	for i := range uint64(4) {
		at := base + i*100_000
		host = append(host, planned{id: 1, start: at, end: at + 90_000, corr: 0}, planned{id: 2, start: at + 1000, end: at + 2000, corr: i + 1})
		gpu = append(gpu, planned{id: 4, start: at + 5000, end: at + 60_000, corr: i + 1})
	}
	return host, gpu
}

// chrome writes the same as a Chrome trace.
func chrome(t *testing.T) []byte {
	names := map[uint64]string{1: "PjitFunction(step)", 2: "cuLaunchKernel", 4: "gemm_fusion_dot"}
	events := []map[string]any{
		{"ph": "M", "pid": 1, "name": "process_name", "args": map[string]any{"name": "/host:CPU"}},
		{"ph": "M", "pid": 2, "name": "process_name", "args": map[string]any{"name": "/device:GPU:1"}},
		{"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": map[string]any{"name": "python"}},
		{"ph": "M", "pid": 2, "tid": 7, "name": "thread_name", "args": map[string]any{"name": "Stream #13(Compute)"}},
		{"ph": "M", "pid": 2, "tid": 8, "name": "thread_name", "args": map[string]any{"name": "XLA Modules"}},
		{"ph": "X", "pid": 2, "tid": 8, "ts": 1000, "dur": 9, "name": "jit_step"},
	}
	host, gpu := program()
	for pid, list := range [][]planned{host, gpu} {
		for _, e := range list {
			args := map[string]any{}
			if e.corr > 0 {
				args["correlation_id"] = fmt.Sprint(e.corr)
			}
			if e.id == 4 {
				args["kernel_details"] = "grid:2,3,1 block:64,1,1"
			}
			events = append(events, map[string]any{"ph": "X", "pid": pid + 1, "tid": 7, "ts": float64(e.start) / 1000, "dur": float64(e.end-e.start) / 1000, "name": names[e.id], "args": args})
		}
	}
	b, err := json.Marshal(map[string]any{"displayTimeUnit": "ns", "traceEvents": events})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The two forms of one recording are one trace: launches are linked, lines that are made
// from others are left out, and the calls of a jitted function are the steps.
func TestForms(t *testing.T) {
	t.Parallel()
	var traces []*model.Trace
	for _, b := range [][]byte{space(), chrome(t)} {
		if !xla.IsTrace(b) {
			t.Fatalf("%.80q is not known", b)
		}
		tr, err := xla.Read(t.Context(), b, "x", 0)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, tr)
	}
	if diff := cmp.Diff(traces[0], traces[1]); diff != "" {
		t.Error(diff)
	}
	tr := traces[0]
	if len(tr.GPU) != 4 || tr.GPU[0].Launch < 0 || tr.GPU[0].Stream != 13 || tr.GPU[0].Blocks != 6 || tr.GPU[0].Threads != 64 || tr.Devices[tr.GPU[0].Device].ID != 1 {
		t.Errorf("%+v", tr.GPU)
	}
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Steps) != 3 || x.Steps[1].Window.Len() != 100_000 || x.Class(0) != "gemm" {
		t.Errorf("steps %+v, class %s", x.Steps, x.Class(0))
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	whole := space()
	for n := range len(whole) {
		tr, err := xla.Read(t.Context(), whole[:n], "x", 0)
		if err == nil && len(tr.Host)+len(tr.GPU) == 0 || err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for _, other := range []string{"", "\n", `{"traceEvents":[{"name":"/tmp"}]}`, "\x0a\x02\x08\x01"} {
		if xla.IsTrace([]byte(other)) {
			t.Errorf("%q is taken for a trace", other)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(space())
	f.Add(gpuSpace(hloProgram(hloOp(1, "a", "dot", hloShape(11, 4, 4), number(36, 1), text(30, number(1, 1)))), false, kernelRun{"k", "a"}))
	f.Add([]byte(`{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},{"ph":"X","pid":1,"tid":1,"ts":-1e99,"dur":1,"name":"k"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := xla.Read(t.Context(), data, "fuzz", 0)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		if _, err := analyze.NewIndex(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	})
}
