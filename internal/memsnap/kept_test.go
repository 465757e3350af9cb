//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// frames is a stack of functions, the innermost first; one with a point is Python's.
func frames(functions ...string) *memtest.List {
	l := &memtest.List{}
	for i, f := range functions {
		file, name, _ := strings.Cut(f, ":")
		if !strings.HasSuffix(file, ".py") {
			file, name = "native.cpp", f
		}
		l.Add(memtest.Frame(name, file, 10+i))
	}
	return l
}

var (
	engine = []string{"torch::autograd::Engine::evaluate_function"}
	module = []string{"/home/u/net.py:forward", "/site-packages/torch/nn/modules/module.py:_call_impl"}
)

func calls(functions ...string) *memtest.List { return frames(append(functions, module...)...) }

func ruleOf(t *testing.T, r *memtest.Recorder, rule string) *Finding {
	t.Helper()
	a := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
	if i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Rule == rule }); i >= 0 {
		return &a.Findings[i]
	}
	return nil
}

// forward allocates the results of layers, of which a pass with a graph keeps all until the
// output is dropped; another one keeps two of layer as a cache does.
func forward(r *memtest.Recorder, graph bool, cached int) {
	var kept []*pool.Block
	var last *pool.Block
	for range 12 {
		for k := range 6 {
			b := r.Alloc(20*mib, calls([]string{"at::native::mm", "at::native::add", "at::native::gelu"}[k%3]))
			if graph || k < cached {
				kept = append(kept, b)
				continue
			}
			if last != nil {
				r.Free(last, calls("c10::TensorImpl::release"))
			}
			last = b
		}
	}
	for _, b := range kept {
		r.Free(b, frames("/home/u/main.py:main"))
	}
	if last != nil {
		r.Free(last, frames("/home/u/main.py:main"))
	}
}

func TestGradUnused(t *testing.T) {
	build := frames("/home/u/net.py:__init__", "/site-packages/torch/nn/modules/module.py:_call_impl")
	python, native := frames("/home/u/main.py:main"), frames("c10::TensorImpl::release", "/home/u/main.py:main")
	graph := frames("torch::autograd::SavedVariable::reset_data()", "torch::autograd::deleteNode(torch::autograd::Node*)", "/home/u/main.py:main")
	// modules allocates 72 results and, in between, temporaries. The stack freed(k) frees result k at the end.
	modules := func(r *memtest.Recorder, temporaries int, freed func(k int) *memtest.List) {
		var kept []*pool.Block
		for k := range 72 {
			kept = append(kept, r.Alloc(20*mib, calls([]string{"at::native::mm", "at::native::exp"}[k%2])))
			if (k+1)*temporaries/72 > k*temporaries/72 {
				r.Free(r.Alloc(20*mib, calls("at::native::sub")), calls("c10::TensorImpl::release"))
			}
		}
		r.Alloc(mib, python)
		for k, b := range kept {
			r.Free(b, freed(k))
		}
	}
	always := func(l *memtest.List) func(int) *memtest.List { return func(int) *memtest.List { return l } }
	first := func(n int) func(int) *memtest.List {
		return func(k int) *memtest.List {
			if k < n {
				return graph
			}
			return native
		}
	}
	for name, c := range map[string]struct {
		program func(r *memtest.Recorder)
		found   bool
	}{
		"graph":                                  {func(r *memtest.Recorder) { forward(r, true, 0) }, true},
		"graph, twice":                           {func(r *memtest.Recorder) { forward(r, true, 0); forward(r, true, 0) }, true},
		"graph of modules with temporaries":      {func(r *memtest.Recorder) { modules(r, 72, always(graph)) }, true},
		"half of the results freed by the graph": {func(r *memtest.Recorder) { modules(r, 72, first(36)) }, true},
		"less than half freed by the graph":      {func(r *memtest.Recorder) { modules(r, 72, first(35)) }, false},
		"results collected without a graph":      {func(r *memtest.Recorder) { modules(r, 0, always(native)) }, false},
		"half of the results, frees of Python":   {func(r *memtest.Recorder) { modules(r, 72, always(python)) }, false},
		"60 % of the results, frees of Python":   {func(r *memtest.Recorder) { modules(r, 48, always(python)) }, true},
		"a graph that an out-of-memory error ends": {func(r *memtest.Recorder) {
			r.Limit = 4 << 30
			modules(r, 72, func(k int) *memtest.List {
				if k == 0 {
					r.Alloc(4<<30, calls("at::native::mm"))
				}
				return graph
			})
		}, false},
		"no graph": {func(r *memtest.Recorder) { forward(r, false, 0) }, false},
		"outputs that are collected": {func(r *memtest.Recorder) {
			var all []*pool.Block
			for range 20 {
				all = append(all, r.Alloc(25*mib, calls("at::native::linear")))
			}
			for _, b := range all {
				r.Free(b, frames("/home/u/main.py:main"))
			}
		}, false},
		"keys and values": {func(r *memtest.Recorder) { forward(r, false, 2) }, false},
		"a model that is deleted": {func(r *memtest.Recorder) {
			var all []*pool.Block
			for range 40 {
				all = append(all, r.Alloc(20*mib, build))
			}
			for _, b := range all {
				r.Free(b, frames("/home/u/main.py:main"))
			}
		}, false},
		"a backward pass": {func(r *memtest.Recorder) {
			forward(r, true, 0)
			r.Free(r.Alloc(mib, frames(engine...)), frames(engine...))
		}, false},
	} {
		r := memtest.New(2, 15)
		r.Alloc(30*mib, build)
		c.program(r)
		f := ruleOf(t, r, gpuprof.RuleGradUnused)
		if (f != nil) != c.found {
			t.Errorf("%s: %+v", name, f)
		}
		if f != nil && (f.ClaimBytes != 72*20*mib || f.Severity != gpuprof.High || !strings.Contains(f.PyTorch, "inference_mode")) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// trainStep is a pass forward and backward with weights, in which what make allocates is kept for the backward pass.
func trainStep(r *memtest.Recorder, stack *memtest.List, freedBy *memtest.List) {
	r.Alloc(100*mib, frames("/home/u/net.py:build"))
	var kept []*pool.Block
	for range 4 {
		kept = append(kept, r.Alloc(100*mib, stack))
		r.Free(r.Alloc(2*mib, calls("at::native::mm")), calls("c10::TensorImpl::release"))
	}
	for i := range kept {
		g := r.Alloc(10*mib, frames(engine...))
		r.Free(g, frames(engine...))
		r.Free(kept[len(kept)-1-i], freedBy)
	}
}

func TestSoftmaxKept(t *testing.T) {
	back := frames(append([]string{"torch::autograd::generated::SoftmaxBackward0::apply"}, engine...)...)
	for name, c := range map[string]struct {
		stack, freedBy *memtest.List
		change         string // "" for no finding
	}{
		"attention":     {calls("at::_softmax", "/home/u/attn.py:attend"), back, "F.scaled_dot_product_attention("},
		"math form":     {calls("at::_softmax", "at::_scaled_dot_product_attention_math", "/home/u/attn.py:attend"), back, "sdpa_kernel"},
		"own attention": {calls("at::_softmax", "/home/u/model.py:scaled_dot_product_attention"), back, "F.scaled_dot_product_attention("},
		"loss":          {calls("at::log_softmax", "/home/u/train.py:loss"), back, "in chunks of the batch"},
		"elsewhere":     {calls("at::_softmax", "/home/u/gate.py:route"), back, "checkpoint"},
		"forward alone": {calls("at::_softmax", "/home/u/attn.py:attend"), calls("c10::TensorImpl::release"), ""},
		"no softmax":    {calls("at::mm", "/home/u/attn.py:attend"), back, ""},
	} {
		r := memtest.New(2, 15)
		trainStep(r, c.stack, c.freedBy)
		f := ruleOf(t, r, gpuprof.RuleSoftmaxKept)
		switch {
		case (f != nil) != (c.change != ""):
			t.Errorf("%s: %+v", name, f)
		case f != nil && (!strings.Contains(f.PyTorch, c.change) || f.ClaimBytes < 350*mib || f.ClaimBytes > 400*mib):
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Attention and a loss keep results of a softmax, which no single change removes: the claim is that of the larger one.
func TestSoftmaxKeptByTwo(t *testing.T) {
	back := frames(append([]string{"torch::autograd::generated::SoftmaxBackward0::apply"}, engine...)...)
	r := memtest.New(2, 15)
	r.Alloc(100*mib, frames("/home/u/net.py:build"))
	kept := []*pool.Block{r.Alloc(300*mib, calls("at::_softmax", "/home/u/attn.py:attend")), r.Alloc(90*mib, calls("at::log_softmax", "/home/u/train.py:loss"))}
	r.Free(r.Alloc(2*mib, calls("at::native::mm")), calls("c10::TensorImpl::release"))
	for i := range kept {
		r.Free(r.Alloc(10*mib, frames(engine...)), frames(engine...))
		r.Free(kept[len(kept)-1-i], back)
	}
	f := ruleOf(t, r, gpuprof.RuleSoftmaxKept)
	if f == nil || f.ClaimBytes < 290*mib || f.ClaimBytes > 300*mib || !strings.Contains(f.PyTorch, "scaled_dot_product_attention(") || !strings.Contains(f.Title, "300 MiB") {
		t.Errorf("%+v", f)
	}
}

// Inference has no backward pass and no steps: the matrices of its attention are temporaries.
func TestAttentionTemporary(t *testing.T) {
	for name, c := range map[string]struct {
		stack *memtest.List
		bytes int64
		found bool
	}{
		"own attention":       {calls("at::_softmax", "/home/u/model.py:scaled_dot_product_attention"), 100 * mib, true},
		"PyTorch's attention": {calls("at::_softmax", "at::_scaled_dot_product_attention_math", "/home/u/attn.py:attend"), 100 * mib, false},
		"another softmax":     {calls("at::_softmax", "/home/u/gate.py:route"), 100 * mib, false},
		"a small matrix":      {calls("at::_softmax", "/home/u/attn.py:attend"), 10 * mib, false},
	} {
		r := memtest.New(2, 15)
		r.Alloc(400*mib, frames("/home/u/net.py:build"))
		for range 4 {
			scores := r.Alloc(c.bytes, c.stack)
			result := r.Alloc(c.bytes, c.stack)
			r.Free(scores, calls("c10::TensorImpl::release"))
			r.Free(result, calls("c10::TensorImpl::release"))
		}
		f := ruleOf(t, r, gpuprof.RuleLargeTemporary)
		switch {
		case (f != nil) != c.found:
			t.Errorf("%s: %+v", name, f)
		case f != nil && (f.ClaimBytes != 2*c.bytes || !strings.Contains(f.PyTorch, "F.scaled_dot_product_attention(")):
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// The scores of attention and their softmax are of one size and made in one function, whose name need not tell it.
func TestScoresOfAttention(t *testing.T) {
	for name, c := range map[string]struct {
		scores *memtest.List
		found  bool
	}{
		"a product of one size": {calls("at::_ops::bmm", "/home/u/llama.py:forward"), true},
		"a sum of one size":     {calls("at::_ops::add", "/home/u/llama.py:forward"), false},
		"another function":      {calls("at::_ops::bmm", "/home/u/gate.py:route"), false},
	} {
		r := memtest.New(2, 15)
		r.Alloc(400*mib, frames("/home/u/net.py:build"))
		for range 4 {
			scores := r.Alloc(100*mib, c.scores)
			result := r.Alloc(100*mib, calls("at::_softmax", "/site-packages/torch/nn/functional.py:softmax", "/home/u/llama.py:forward"))
			r.Free(scores, calls("c10::TensorImpl::release"))
			r.Free(result, calls("c10::TensorImpl::release"))
		}
		if f := ruleOf(t, r, gpuprof.RuleLargeTemporary); (f != nil) != c.found || f != nil && f.ClaimBytes != 200*mib {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// What was live before the recording has a category where its block, or what freed it, has a stack.
func TestCategoriesBeforeTheRecording(t *testing.T) {
	r := memtest.New(2, 15)
	r.Alloc(100*mib, nil)
	step := frames("/home/u/adam.py:step", "/site-packages/torch/optim/optimizer.py:wrapper")
	r.Alloc(200*mib, step)
	gradient := r.Alloc(90*mib, frames(append([]string{"torch::autograd::generated::AddmmBackward0::apply"}, engine...)...))
	other := r.Alloc(30*mib, frames("/home/u/net.py:build"))
	r.Forget(0)
	held := r.Alloc(300*mib, calls("at::native::mm"))
	r.Free(other, frames("/home/u/net.py:drop"))
	r.Free(gradient, frames("/site-packages/torch/optim/optimizer.py:zero_grad"))
	r.Free(held, frames(engine...))
	r.Step(func() {})
	a := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
	got := map[string]int64{}
	for _, p := range a.Devices[0].Peak.Categories {
		got[p.Category] = p.Bytes / mib
	}
	want := map[string]int64{"optimizer state": 200, "gradient": 90, "before the recording": 130, "activation": 300}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	claims := map[string]int64{}
	for _, f := range a.Findings {
		claims[f.Rule] = f.ClaimBytes / mib
	}
	if claims[gpuprof.RuleOptimizerState] != 150 || claims[gpuprof.RuleGradientHeld] != 90 {
		t.Errorf("%v", claims)
	}
}

// Fragmentation counts where the recording requests as much memory of the driver as is lost: what was live when earlier
// memory was reserved is unknown.
func TestReservedBeforeTheRecording(t *testing.T) {
	load := frames("/home/u/net.py:load")
	for name, c := range map[string]struct {
		from  func(load, step int) int // the first recorded event
		found bool
	}{
		"recorded whole": {func(_, _ int) int { return 0 }, true},
		"recorded from segments of 200 and 280 MiB": {func(load, _ int) int { return load }, true},
		"recorded from a segment of 2 MiB on":       {func(_, step int) int { return step }, false},
		"recorded without a request":                {func(_, step int) int { return step + 1 }, false},
	} {
		r := memtest.New(2, 15)
		held := r.Alloc(300*mib, frames("/home/u/net.py:build"))
		loads := len(r.Events)
		r.Free(r.Alloc(200*mib, load), load)
		r.Free(r.Alloc(280*mib, load), load)
		step := len(r.Events)
		r.Free(r.Alloc(mib, calls("at::native::mm")), calls("c10::TensorImpl::release"))
		r.Forget(len(r.Events) - c.from(loads, step))
		r.Free(held, frames("/home/u/net.py:drop"))
		if f := ruleOf(t, r, gpuprof.RuleFragmentation); (f != nil) != c.found {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Casts that autocast drops at its end are found where they add to the peak: those that the backward pass needs in
// any case are not.
func TestAutocastKept(t *testing.T) {
	cast, end := calls("at::autocast::cached_cast"), frames("at::autocast::clear_cache()", "/site-packages/torch/amp/autocast_mode.py:__exit__")
	for name, c := range map[string]struct {
		backward bool
		late     int64 // bytes of a temporary of the backward pass, where the peak is
		kept     bool  // the recording ends in the block
		claim    int64
	}{
		"no backward pass":                         {false, 0, false, 400 * mib},
		"the recording ends in the block":          {false, 0, true, 400 * mib},
		"it ends in the block, after the backward": {true, 0, true, 0},
		"the peak lies before the backward pass":   {true, 0, false, 0},
		"the peak lies at the backward pass's end": {true, 300 * mib, false, 300 * mib},
	} {
		r := memtest.New(2, 15)
		r.Alloc(100*mib, frames("/home/u/net.py:build"))
		var casts []*pool.Block
		for range 4 {
			casts = append(casts, r.Alloc(100*mib, cast))
			r.Free(r.Alloc(2*mib, calls("at::native::mm")), calls("c10::TensorImpl::release"))
		}
		if c.backward {
			r.Free(r.Alloc(mib, frames(engine...)), frames(engine...))
			r.Free(r.Alloc(mib+c.late, frames(engine...)), frames(engine...))
		}
		for _, b := range casts {
			if !c.kept {
				r.Free(b, end)
			}
		}
		f := ruleOf(t, r, gpuprof.RuleAutocastKept)
		switch {
		case (f != nil) != (c.claim > 0):
			t.Errorf("%s: %+v", name, f)
		case f != nil && (f.ClaimBytes < c.claim*95/100 || f.ClaimBytes > c.claim*105/100):
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// reread returns an analysis as a reader of its file has it.
func reread(t *testing.T, a *Analysis) *Analysis {
	t.Helper()
	var text bytes.Buffer
	if err := document.Encode(&text, a); err != nil {
		t.Fatal(err)
	}
	out, err := Decode(text.Bytes(), "memory.json")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStill: a snapshot with almost no events shows its end alone, in its file as well. Its peak is unknown, and the answer
// names the line that holds most of what has a line.
func TestStill(t *testing.T) {
	for name, c := range map[string]struct {
		freed   int64
		forget  int
		one     bool
		sayings []string
	}{
		"no events":           {0, 0, true, []string{"Tensors hold 1.00 GiB", "the largest line 1.00 GiB of it", "has no event"}},
		"a free of 512 bytes": {512, 2, true, []string{"Tensors hold 1.00 GiB", "the largest line 1.00 GiB of it", "has no event"}},
		"a free of a tensor":  {200 * mib, 2, false, []string{"Tensors take up to 1.20 GiB"}},
		"the whole recording": {512, 1000, false, []string{"Tensors take up to 1.00 GiB"}},
	} {
		r := memtest.New(2, 5)
		r.Alloc(1024*mib, calls("cache.py"))
		if c.freed > 0 {
			r.Free(r.Alloc(c.freed, calls("at::native::mm")), calls("c10::TensorImpl::release"))
		}
		r.Forget(min(c.forget, len(r.Events)))
		a := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
		for _, got := range []*Analysis{a, reread(t, a)} {
			d := &got.Devices[0]
			_, when := d.Shown()
			if d.HasOneMoment() != c.one || (when == "the end") != c.one {
				t.Errorf("%s: one moment %t, shown at %s", name, d.HasOneMoment(), when)
			}
			for _, part := range c.sayings {
				if !strings.Contains(got.Answer().Sentence, part) {
					t.Errorf("%s: %q lacks %q", name, got.Answer().Sentence, part)
				}
			}
		}
	}
}

// A snapshot without steps names segments that go back to the driver again and again, and one whose events are marks
// alone is as one without events.
func TestLimitsOfASnapshotWithoutSteps(t *testing.T) {
	answer := func(turns int, empty bool) gpuprof.Answer {
		r := memtest.New(2, 5)
		r.Alloc(30*mib, calls("at::native::mm"))
		for range turns {
			r.Free(r.Alloc(100*mib, calls("at::native::mm")), calls("c10::TensorImpl::release"))
			if empty {
				if err := r.Empty(calls("at::native::mm")); err != nil {
					t.Fatal(err)
				}
			}
		}
		a := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
		got := a.Answer()
		if saved := reread(t, a).Answer(); saved.Sentence != got.Sentence || saved.Verdict != got.Verdict {
			t.Errorf("a saved analysis answers %q, the snapshot %q", saved.Sentence, got.Sentence)
		}
		return got
	}
	const churn = "60 segments went back to the driver and 61 were requested"
	if got := answer(60, true); !strings.Contains(got.Sentence, churn) {
		t.Errorf("emptied: %q", got.Sentence)
	}
	for name, got := range map[string]gpuprof.Answer{"kept": answer(60, false), "few": answer(5, true)} {
		if strings.Contains(got.Sentence, "went back to the driver") {
			t.Errorf("%s: %q", name, got.Sentence)
		}
	}
	if got := answer(0, false); got.Verdict != "not decided" || strings.Contains(got.Sentence, "has no event") {
		t.Errorf("one request: %q", got.Sentence)
	}
}

// TestActivationsWithoutSteps: in a snapshot that marks no optimizer, blocks of the forward pass that the backward pass frees
// are activations. Without frees in the backward pass, their purpose is unknown.
func TestActivationsWithoutSteps(t *testing.T) {
	for backward, want := range map[string]Category{"torch::autograd::Engine::evaluate_function": Activation, "c10::TensorImpl::release": Other} {
		r := memtest.New(2, 5)
		r.Alloc(100*mib, calls("build"))
		var kept []*pool.Block
		for range 8 {
			kept = append(kept, r.Alloc(50*mib, calls("forward")))
		}
		for _, b := range kept {
			r.Free(b, calls(backward))
		}
		a := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
		if top := a.Devices[0].Peak.Categories[0]; top.Category != want.String() || top.Bytes < 400*mib {
			t.Errorf("freed by %s: %+v, want %s", backward, top, want)
		}
	}
}
