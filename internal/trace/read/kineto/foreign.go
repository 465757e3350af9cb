package kineto

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// foreignFormat is a file format that is not a trace but that users often give by mistake.
type foreignFormat struct {
	matches func(head []byte, name string) bool // name is the file name in lower case
	what    string                              // "this is …"
	fix     string
}

// giveTrace is the fix for a file that PyTorch writes but that is not a trace.
const giveTrace = "give the trace that torch.profiler and export_chrome_trace write (docs/analyze.md)"

// foreignFormats are tried in order, archives first.
func foreignFormats() []foreignFormat {
	return []foreignFormat{
		{isTar, "a tar archive", "unpack it with: tar xf %s, and give the folder, so that all its traces are read"},
		{startsWith("PK\x03\x04"), "a zip archive", "unpack it with: unzip %s, and give the traces in it"},
		{hasExtension(".ncu-rep"), "an Nsight Compute report, which measures single kernels", "record the program with: nsys profile --trace=cuda,nvtx, or with torch.profiler (docs/analyze.md)"},
		{hasExtension(".pftrace", ".perfetto-trace"), "a Perfetto trace in protocol buffers", "give the JSON trace of torch.profiler; rocprofv3 records no operators, torch.profiler records ROCm with them (docs/analyze.md)"},
		{isEventFile, "a TensorBoard event file, which holds scalars and summaries", "give the trace of a profiler, such as torch.profiler and export_chrome_trace (docs/analyze.md)"},
		{isPickle, "a Python pickle and no trace; gpuprof analyze takes those of torch.cuda.memory._dump_snapshot alone", "give memory snapshots to a gpuprof analyze of their own (docs/memory.md), and for a program's time " + giveTrace},
		{startsWith("<"), "an HTML or XML page, as export_memory_timeline writes, or a server in place of a file", "look at it in a browser, and for a program's time " + giveTrace},
		{isMemoryTimeline, "a memory timeline of PyTorch (export_memory_timeline), which has no times of kernels", giveTrace},
		{isExecutionTrace, "an execution trace of PyTorch (ExecutionTraceObserver), which has operators and no times of the device", giveTrace},
		{matchesPattern(`"\$schema"\s*:\s*"https?://(www\.)?speedscope`), "a speedscope profile, which samples the host alone", giveTrace},
		{matchesPattern(`"viztracer_metadata"|"cat"\s*:\s*"FEE"`), "a VizTracer trace, which holds Python calls of the host alone", "record the device too: " + giveTrace},
		{matchesPattern(`"rocprofiler-sdk-tool"|"BeginNs"\s*:|CPU HIP API|"Kernel_?Name"\s*,|^"?Index"?\s*,\s*"?KernelName`), "output of rocprof, which gpuprof does not read", "record again with: rocprofv3 --runtime-trace --output-format rocpd -- PROGRAM, or a PyTorch program with torch.profiler (docs/analyze.md)"},
		{matchesPattern(`"name"\s*:\s*"/job:[^"]*(Compute|Tensors)|"cat"\s*:\s*"Op"\s*,\s*"name"`), "a timeline of a TensorFlow session", "record with tf.profiler.experimental.start, and give the file that ends in .xplane.pb or .trace.json.gz"},
		{matchesPattern(`(?s)^(\x48.{1,10})?\x0a[\x02-\x08]\x08[\x00-\x7f]\x10`), "a pprof profile, which has sums of samples and no times", "look at it with go tool pprof, and for a program's time " + giveTrace},
		{isModel, "a model and no recording of a program", "run it under torch.profiler, or with gpuprof run -- python PROGRAM (docs/analyze.md)"},
		{hasExtension(".pb"), "a file of protocol buffers that the profiler of TensorFlow and JAX did not write", "give the file that ends in .xplane.pb (docs/analyze.md)"},
		{isStacks, "a list of stacks (export_stacks), which has sums for flame graphs and no times", giveTrace},
	}
}

// Foreign returns the error for a file of a known format that is not a trace, nil for others. head is the start of
// its decompressed text. The error wraps ErrInput.
func Foreign(head []byte, path string) error {
	head = bytes.TrimPrefix(head, byteOrder)
	base := filepath.Base(path)
	for _, f := range foreignFormats() {
		if f.matches(head, strings.ToLower(base)) {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is %s", path, f.what).WithFix("%s", strings.ReplaceAll(f.fix, "%s", base))
		}
	}
	return nil
}

func startsWith(mark string) func([]byte, string) bool {
	return func(head []byte, _ string) bool {
		return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte(mark))
	}
}

// hasExtension recognizes binary formats by file name. It rejects JSON text.
func hasExtension(ext ...string) func([]byte, string) bool {
	return func(head []byte, name string) bool {
		for _, e := range ext {
			if text := bytes.TrimLeft(head, " \t\r\n"); strings.HasSuffix(name, e) && len(text) > 0 && text[0] != '{' && text[0] != '[' {
				return true
			}
		}
		return false
	}
}

func matchesPattern(pattern string) func([]byte, string) bool {
	return func(head []byte, _ string) bool { return regexp.MustCompile(pattern).Match(head) }
}

// Offsets in a tar header, bytes: format name and checksum.
const (
	tarMagic  = 257
	tarSum    = 148
	tarSumEnd = 156
	tarBlock  = 512
)

// isTar recognizes a tar archive by its format name or by the checksum of its first header. The checksum counts its
// own field as blanks.
func isTar(head []byte, _ string) bool {
	if len(head) < tarBlock {
		return false
	}
	if bytes.HasPrefix(head[tarMagic:], []byte("ustar")) {
		return true
	}
	sum, err := strconv.ParseInt(strings.Trim(string(head[tarSum:tarSumEnd]), " \x00"), 8, 64)
	for i, c := range head[:tarBlock] {
		if i >= tarSum && i < tarSumEnd {
			c = ' '
		}
		sum -= int64(c)
	}
	return err == nil && sum == 0
}

func isPickle(head []byte, _ string) bool {
	return len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5
}

// isModel recognizes ONNX by file name, or by version and producer, and TensorFlow's SavedModel and frozen graph by
// file name.
func isModel(head []byte, name string) bool {
	binary := len(head) > 0 && head[0] != '{' && head[0] != '['
	return binary && (strings.HasSuffix(name, ".onnx") || name == "saved_model.pb" || strings.HasPrefix(name, "frozen_") && strings.HasSuffix(name, ".pb")) ||
		onnx.Match(head)
}

var onnx = lazyregexp.New(`^\x08[\x01-\x20]\x12[\x01-\x7f][a-zA-Z][a-zA-Z0-9._ -]+[\x1a\x22\x28\x32\x3a]`)

func isEventFile(head []byte, name string) bool {
	return strings.Contains(name, "tfevents") && !bytes.HasPrefix(head, []byte("{"))
}

// isMemoryTimeline recognizes lists of lists: times and sizes, or single actions.
func isMemoryTimeline(head []byte, _ string) bool {
	return regexp.MustCompile(`^\s*\[\s*\[\s*(-?[0-9]|\])`).Match(head)
}

// isExecutionTrace recognizes an execution trace by its members schema and nodes.
func isExecutionTrace(head []byte, _ string) bool {
	schema, nodes := false, false
	document.JSONMembers(head, func(key string, _ []byte) bool {
		schema = schema || key == "schema"
		nodes = nodes || key == "nodes"
		return key != "traceEvents"
	})
	return schema && (nodes || regexp.MustCompile(`"nodes"\s*:\s*\[`).Match(head))
}

var stackLine = lazyregexp.New(`^[^{\["][^\n]*(;[^\n; ][^\n;]*)+ [0-9]+$`)

// isStacks recognizes lines of frames separated by semicolons, followed by a number.
func isStacks(head []byte, _ string) bool {
	lines := strings.Split(strings.TrimSpace(string(head)), "\n")
	if len(lines) > 1 && len(head) > 1<<15 {
		lines = lines[:len(lines)-1] // may be truncated
	}
	return !slices.ContainsFunc(lines[:min(len(lines), 8)], func(l string) bool { return !stackLine.MatchString(strings.TrimRight(l, "\r")) })
}
