package memsnap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// Sites of stacks without a program line.
const (
	beforeRecording = "(before the recording)"
	noFrame         = "(no Python frame)"
)

// isPython reports whether a frame is a Python frame: C++ frames have no file, or a C++ file.
func (f *Frame) isPython() bool {
	return strings.HasSuffix(f.File, ".py") || strings.HasPrefix(f.File, "<") || strings.HasSuffix(f.File, ".ipynb") || strings.Contains(f.File, "ipykernel_")
}

// isUserCode reports whether a Python frame belongs to the program, not to a library.
func (f *Frame) isUserCode() bool {
	library := []string{"/torch/", "site-packages", "dist-packages", "<frozen "}
	return !slices.ContainsFunc(library, func(s string) bool { return strings.Contains(f.File, s) }) && !standardLibrary.MatchString(f.File)
}

// standardLibrary matches files of Python's own library, such as contextlib.py, with wrappers that call decorated
// functions.
var standardLibrary = lazyregexp.New(`[/\\](lib[/\\]python3[.0-9]*|Python3\d*[/\\][Ll]ib)[/\\][^/\\]+\.py$`)

// siteOfStack returns the innermost Python frame of the program, else the innermost one of a library. For a stack of
// autograd without Python frames it names the backward function.
func siteOfStack(stack []Frame) string {
	var python *Frame
	for i := range stack {
		f := &stack[i]
		if !f.isPython() {
			continue
		}
		if f.Original != "" {
			return f.Original
		}
		if f.isUserCode() {
			return f.frameText()
		}
		if python == nil {
			python = f
		}
	}
	if python != nil {
		return python.frameText()
	}
	for i := range stack {
		if name := backward.FindStringSubmatch(stack[i].Name); name != nil {
			return "backward of " + name[1]
		}
	}
	return noFrame
}

var backward = lazyregexp.New(`(?:^|[: ])([A-Za-z0-9]+)Backward[0-9]*::`)

func (f *Frame) frameText() string {
	if f.Name == "" {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d in %s", f.File, f.Line, f.Name)
}

// Machinery reports whether a frame only serves recording or calling; stacks omit such frames, like PyTorch's
// _memory_viz.py (_frame_filter).
func (f *Frame) Machinery() bool {
	has := func(text string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	return has(f.Name, "unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main", "PyEval_", "PyObject_", "PyFunction_") ||
		has(f.File, "core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c", "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")
}

// traits holds the properties of a stack from which categories and findings are derived.
type traits struct {
	site                string
	workspace, autograd bool
	native              bool // with C++ frames
	graph               bool // frees what a graph of autograd holds
	empty               bool // inside empty_cache
	module              bool // inside a module call, except construction and moves
	softmax, attention  bool
	product             bool   // a product of matrices
	function            string // the innermost Python function outside PyTorch that is no softmax, by file and name
	vocabulary          bool   // softmax of a loss over classes
	sdpa                bool   // inside scaled_dot_product_attention
	cast                bool   // autocast casts an operand
	clearsCasts         bool   // autocast drops its cached casts
	distributed         bool   // part of a program with several processes
	smallStates         bool   // optimizer with 8-bit states
	fused               bool   // step of a fused optimizer
	optimizer           bool   // inside an optimizer
	zeroGrad            bool   // inside zero_grad of an optimizer or a module
	bare                bool   // without frames
}

// newTraits returns the traits of a stack. An empty stack is of an autograd thread, which has no Python frames.
func newTraits(stack []Frame) traits {
	t := traits{site: siteOfStack(stack), autograd: len(stack) == 0, bare: len(stack) == 0}
	builds := false
	for i := range stack {
		f := &stack[i]
		for _, p := range frameTraits {
			if strings.Contains(f.Name, p.part) || p.files && strings.Contains(f.File, p.part) {
				*p.of(&t) = true
			}
		}
		// PyTorch's attention has no Python frame: a Python frame of that name is the program's own.
		if strings.Contains(f.Name, attentionOperator) {
			t.attention, t.sdpa = true, t.sdpa || !strings.HasSuffix(f.File, ".py")
		}
		if t.function == "" && f.isPython() && !strings.Contains(f.File, "/torch/") && !strings.Contains(f.Name, "softmax") {
			t.function = f.File + ":" + f.Name
		}
		t.native = t.native || !f.isPython()
		builds = builds || f.Name == "__init__" || f.Name == "_apply" || f.Name == "load_state_dict"
	}
	t.module = t.module && !builds
	return t
}

// attentionOperator is part of the names of PyTorch's attention functions.
const attentionOperator = "scaled_dot_product_attention"

// frameTraits maps parts of function names and file names to traits.
var frameTraits = []struct {
	part  string
	files bool
	of    func(t *traits) *bool
}{
	{"Workspace", false, func(t *traits) *bool { return &t.workspace }},
	{"BlasHandle", false, func(t *traits) *bool { return &t.workspace }},
	{"autograd::Engine", false, func(t *traits) *bool { return &t.autograd }},
	{"autograd::SavedVariable", false, func(t *traits) *bool { return &t.graph }},
	{"autograd::deleteNode", false, func(t *traits) *bool { return &t.graph }},
	{"empty_cache", false, func(t *traits) *bool { return &t.empty }},
	{"emptyCache", false, func(t *traits) *bool { return &t.empty }},
	{"_call_impl", false, func(t *traits) *bool { return &t.module }},
	{"softmax", false, func(t *traits) *bool { return &t.softmax }},
	{"attention", true, func(t *traits) *bool { return &t.attention }},
	{"attn", true, func(t *traits) *bool { return &t.attention }},
	{"Attention", true, func(t *traits) *bool { return &t.attention }},
	{"bmm", false, func(t *traits) *bool { return &t.product }},
	{"matmul", false, func(t *traits) *bool { return &t.product }},
	{"log_softmax", false, func(t *traits) *bool { return &t.vocabulary }},
	{"cross_entropy", false, func(t *traits) *bool { return &t.vocabulary }},
	{"cached_cast", false, func(t *traits) *bool { return &t.cast }},
	{"autocast::clear_cache", false, func(t *traits) *bool { return &t.clearsCasts }},
	{"clear_autocast_cache", false, func(t *traits) *bool { return &t.clearsCasts }},
	{"torch/distributed/", true, func(t *traits) *bool { return &t.distributed }},
	{"c10d::", false, func(t *traits) *bool { return &t.distributed }},
	{"DistributedDataParallel", false, func(t *traits) *bool { return &t.distributed }},
	{"torch/optim/", true, func(t *traits) *bool { return &t.optimizer }},
	{"zero_grad", false, func(t *traits) *bool { return &t.zeroGrad }},
	{"_fused_", false, func(t *traits) *bool { return &t.fused }},
	{"bitsandbytes", true, func(t *traits) *bool { return &t.smallStates }},
	{"low_bit_optim", true, func(t *traits) *bool { return &t.smallStates }},
}

func (s *Snapshot) stackTraits() []traits {
	out := make([]traits, max(len(s.stackAt)-1, 0))
	for i := range out {
		out[i] = newTraits(s.Stack(uint32(i)))
	}
	return out
}
