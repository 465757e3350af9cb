package memsnap

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What has no line of the program.
const (
	beforeRecording = "(before the recording)"
	noFrame         = "(no Python frame)"
)

// isPython says that a frame is one of Python's: those of C++ have no file, or one of C++.
func (f *Frame) isPython() bool {
	return strings.HasSuffix(f.File, ".py") || strings.HasPrefix(f.File, "<") || strings.HasSuffix(f.File, ".ipynb") || strings.Contains(f.File, "ipykernel_")
}

// own says that a Python frame is the program's and no library's.
func (f *Frame) own() bool {
	for _, library := range []string{"/torch/", "site-packages", "dist-packages", "<frozen "} {
		if strings.Contains(f.File, library) {
			return false
		}
	}
	return true
}

// site is the line that a stack is called by: the innermost Python frame of the program,
// else of a library; of PyTorch's own backward pass its function.
func site(stack []Frame) string {
	var python *Frame
	for i := range stack {
		f := &stack[i]
		if !f.isPython() {
			continue
		}
		if f.Original != "" {
			return f.Original
		}
		if f.own() {
			return f.where()
		}
		if python == nil {
			python = f
		}
	}
	if python != nil {
		return python.where()
	}
	for i := range stack {
		if name := backward.FindStringSubmatch(stack[i].Name); name != nil {
			return "backward of " + name[1]
		}
	}
	return noFrame
}

var backward = regexp.MustCompile(`(?:^|[: ])([A-Za-z0-9]+)Backward[0-9]*::`)

func (f *Frame) where() string {
	if f.Name == "" {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d in %s", f.File, f.Line, f.Name)
}

// Machinery says that a frame belongs to recording and calling, and is left out of stacks
// as PyTorch's own viewer does (_frame_filter of torch/cuda/_memory_viz.py).
func (f *Frame) Machinery() bool {
	has := func(text string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	return has(f.Name, "unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp", "_start", "__libc_start_main", "PyEval_", "PyObject_", "PyFunction_") ||
		has(f.File, "core/boxing", "/Register", "/Redispatch", "pythonrun.c", "Modules/main.c", "Objects/call.c", "Objects/methodobject.c", "pycore_ceval.h", "ceval.c", "cpython/abstract.h")
}

// traits are the properties of a stack that rules ask for.
type traits struct {
	site                string
	workspace, autograd bool
	empty               bool // the call of empty_cache
	module              bool // inside the call of a module, and not where one is built or moved
	softmax, attention  bool
	vocabulary          bool // the softmax of a loss over classes
	sdpa                bool // inside scaled_dot_product_attention
	cast                bool // autocast casts an operand
	clearsCasts         bool // autocast drops the casts that it kept
	distributed         bool // of a program with several processes
	smallStates         bool // an optimizer with states of 8 bits
	fused               bool // the step of a fused optimizer
}

// traitsOf are those of a stack. Without any frame it is autograd's, whose threads have
// none in a recording of Python frames.
func traitsOf(stack []Frame) traits {
	t := traits{site: site(stack), autograd: len(stack) == 0}
	builds := false
	for i := range stack {
		f := &stack[i]
		for _, p := range frameTraits {
			if strings.Contains(f.Name, p.part) || p.files && strings.Contains(f.File, p.part) {
				*p.of(&t) = true
			}
		}
		builds = builds || f.Name == "__init__" || f.Name == "_apply" || f.Name == "load_state_dict"
	}
	t.module = t.module && !builds
	return t
}

// frameTraits are parts of the names of functions, and of files, by which a trait is recognised.
var frameTraits = []struct {
	part  string
	files bool
	of    func(t *traits) *bool
}{
	{"Workspace", false, func(t *traits) *bool { return &t.workspace }},
	{"BlasHandle", false, func(t *traits) *bool { return &t.workspace }},
	{"autograd::Engine", false, func(t *traits) *bool { return &t.autograd }},
	{"empty_cache", false, func(t *traits) *bool { return &t.empty }},
	{"emptyCache", false, func(t *traits) *bool { return &t.empty }},
	{"_call_impl", false, func(t *traits) *bool { return &t.module }},
	{"softmax", false, func(t *traits) *bool { return &t.softmax }},
	{"attention", true, func(t *traits) *bool { return &t.attention }},
	{"attn", true, func(t *traits) *bool { return &t.attention }},
	{"Attention", true, func(t *traits) *bool { return &t.attention }},
	{"log_softmax", false, func(t *traits) *bool { return &t.vocabulary }},
	{"cross_entropy", false, func(t *traits) *bool { return &t.vocabulary }},
	{"scaled_dot_product_attention", false, func(t *traits) *bool { return &t.sdpa }},
	{"cached_cast", false, func(t *traits) *bool { return &t.cast }},
	{"autocast::clear_cache", false, func(t *traits) *bool { return &t.clearsCasts }},
	{"clear_autocast_cache", false, func(t *traits) *bool { return &t.clearsCasts }},
	{"torch/distributed/", true, func(t *traits) *bool { return &t.distributed }},
	{"c10d::", false, func(t *traits) *bool { return &t.distributed }},
	{"DistributedDataParallel", false, func(t *traits) *bool { return &t.distributed }},
	{"_fused_", false, func(t *traits) *bool { return &t.fused }},
	{"bitsandbytes", true, func(t *traits) *bool { return &t.smallStates }},
	{"low_bit_optim", true, func(t *traits) *bool { return &t.smallStates }},
}

// traits are those of every stack of the file, each found out once.
func (s *Snapshot) traits() []traits {
	out := make([]traits, max(len(s.stackAt)-1, 0))
	for i := range out {
		out[i] = traitsOf(s.Stack(uint32(i)))
	}
	return out
}
