package kineto_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// Files of other kinds are called by their names, and the sentence says what to give.
func TestForeign(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"rank0.json", "rank1.json"} {
		text := `{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}`
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, what, fix string }{
		{"ranks.tar.gz", archive.String(), "tar archive", "tar xf ranks.tar.gz"},
		{"t.zip", "PK\x03\x04rest", "zip archive", "unzip"},
		{"s.pickle", "\x80\x04\x95\x00", "pickle", "docs/memory.md"},
		{"m.html", "<!DOCTYPE html><html>", "HTML", "browser"},
		{"m.json", `[[1, 2, 3], [[0, 1], [2, 3]]]`, "memory timeline", "export_chrome_trace"},
		{"m.raw.json", `[[17, 1, 512, 3], [18, 2, 512, 3]]`, "memory timeline", "export_chrome_trace"},
		{"et.json", `{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "x", "start_ts": 1, "nodes": [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]"`, "execution trace", "export_chrome_trace"},
		{"v.json", `{"traceEvents":[{"pid":1,"tid":1,"ts":1,"dur":2,"name":"f","ph":"X","cat":"FEE"}],"viztracer_metadata":{}}`, "VizTracer", "export_chrome_trace"},
		{"r.json", `{"traceEvents":[{"args":{"name":"2 CPU HIP API"},"ph":"M","pid":2,"name":"process_name"}`, "rocprof", "torch.profiler"},
		{"r.csv", `"Index","KernelName","gpu-id"`, "rocprof", "torch.profiler"},
		{"r3.json", `{"rocprofiler-sdk-tool": [{"metadata": {}}]}`, "rocprof", "torch.profiler"},
		{"r3.csv", `"Kind","Agent_Id","Queue_Id","Kernel_Name","Start_Timestamp"`, "rocprof", "torch.profiler"},
		{"tl.json", `{"traceEvents": [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "/job:localhost/replica:0/task:0/device:GPU:0 Compute"}}`, "TensorFlow", "xplane.pb"},
		{"events.out.tfevents.17.host", "\x18\x00\x00\x00", "TensorBoard", "profiler"},
		{"cpu.pb.gz", "\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04", "pprof profile", "go tool pprof"},
		{"go.prof", "\x48\xfc\xae\xbb\x87\xbf\xc2\xb3\xf5\x18\x0a\x04\x08\x01\x10\x02", "pprof profile", "go tool pprof"}, // its time comes first
		{"m.onnx", "\x08\x08\x12\x07pytorch\x1a\x062.15.0", "a model", "gpuprof run --"},
		{"m.pb", "\x08\x08\x12\x07pytorch\x1a\x062.15.0", "a model", "gpuprof run --"},
		{"saved_model.pb", "\x08\x01\x12\x20\x0a\x10", "a model", "gpuprof run --"},
		{"frozen_graph.pb", "\x0a\x14\x0a\x05input\x12\x0bPlaceholder", "a model", "gpuprof run --"},
		{"other.pb", "\x0a\x14\x0a\x05input\x12\x0bPlaceholder", "protocol buffers", ".xplane.pb"},
		{"k.ncu-rep", "NVR\x00", "Nsight Compute", "nsys profile"},
		{"p.pftrace", "\x0a\x10", "Perfetto", "torch.profiler"},
		{"stacks.txt", "a.py(1): f;b.py(2): g;aten::mm 120\na.py(1): f;b.py(3): h 7\n", "stacks", "export_chrome_trace"},
		{"s.json", `{"version":"0.0.1","$schema": "https://www.speedscope.app/file-format-schema.json"`, "speedscope", "export_chrome_trace"},
	} {
		err := kineto.Foreign([]byte(c.text), c.name)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), c.what) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, own := range []string{`{"schemaVersion": 1, "traceEvents": [`, `[{"ph":"X"}]`, "hello, world", "", "  ", `{"notes": []}`, "This is a letter; it has 7\n"} {
		if err := kineto.Foreign([]byte(own), "x.pftrace.json"); err != nil {
			t.Errorf("%q: %v", own, err)
		}
	}
	traces, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "testdata", "traces", "*.json"))
	if err != nil || len(traces) < 20 {
		t.Fatal(traces, err)
	}
	for _, path := range traces {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := kineto.Foreign(text[:min(len(text), 64<<10)], path); err != nil {
			t.Error(err)
		}
	}
}

func FuzzForeign(f *testing.F) {
	f.Add([]byte("a;b 1\n"), "x.ncu-rep")
	f.Add([]byte(`{"schema":1,"nodes":[`), "tfevents")
	f.Fuzz(func(t *testing.T, head []byte, name string) {
		if err := kineto.Foreign(head, name); err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Fatal(err)
		}
	})
}
