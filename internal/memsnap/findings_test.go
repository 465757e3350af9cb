//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// training is a program of six steps with what can be wrong in one.
type training struct {
	parameters, activations, state int64 // bytes each, of 4 layers
	keepGradients                  bool  // until after the forward pass
	leak                           bool
	temporary                      int64 // bytes of one block in the middle of the peak
	optimizerTemporary             int64
	empty                          bool
	cached                         int64 // bytes that only the second step uses
	limit                          int64
	odd                            bool // sizes that grow, which pieces of before do not fit
	small                          int  // tensors of 16 bytes
	roundup                        uint64
	workspace                      int64 // that a library holds
	pending                        int64 // freed before the forward pass, and returned after it
	pools                          bool  // each segment is of a private pool
}

const layers = 4

// line is a stack of one line of the program; of autograd's threads there is none.
func line1(n int, function string) *memtest.List {
	return memtest.Of(memtest.Frame(function, "/home/u/train.py", n))
}

// run records it. Sizes are multiples of 2 MiB from 12 MiB on, so that a clean program
// leaves next to nothing of its segments free.
func (p training) run(t *testing.T) *Analysis {
	t.Helper()
	r := memtest.New(2, 15)
	r.Limit, r.Roundup, r.Pools = p.limit, p.roundup, p.pools
	if p.roundup > 0 {
		r.Config = "roundup_power2_divisions:2"
	}
	var weights, grads, state []*pool.Block
	for i := range layers {
		weights = append(weights, r.Alloc(p.parameters, line1(10+i, "build")))
	}
	free := func(all []*pool.Block, by *memtest.List) []*pool.Block {
		for _, b := range all {
			if b != nil {
				r.Free(b, by)
			}
		}
		return nil
	}
	zero, auto := line1(30, "zero_grad"), &memtest.List{}
	for range p.small {
		r.Alloc(16, line1(15, "scalars"))
	}
	if p.workspace > 0 {
		r.Alloc(p.workspace, memtest.Of(memtest.Frame("at::cuda::getCurrentCUDABlasHandle()", "CublasHandlePool.cpp", 0)))
	}
	for step := range 6 {
		var acts []*pool.Block
		var late *pool.Block
		if p.pending > 0 {
			late = r.Alloc(p.pending, line1(8, "prefetch"))
			r.Ask(late, line1(9, "used"))
		}
		if step == 1 && p.cached > 0 {
			r.Free(r.Alloc(p.cached, line1(5, "warm")), line1(5, "warm"))
		}
		for i := range layers {
			size := p.activations
			if p.odd {
				size += int64(step) * (6 << 20)
			}
			acts = append(acts, r.Alloc(size, line1(20, "forward")))
			for range 30 { // small work, so that steps have many events
				r.Free(r.Alloc(512, line1(21, "small")), line1(21, "small"))
			}
			_ = i
		}
		if late != nil {
			r.Complete(late, line1(9, "used"))
		}
		if p.temporary > 0 {
			r.Free(r.Alloc(p.temporary, line1(25, "loss")), line1(25, "loss"))
		}
		if p.keepGradients {
			grads = free(grads, zero)
		}
		for i := range layers {
			grads = append(grads, r.Alloc(p.parameters, auto))
			if acts[layers-1-i] != nil {
				r.Free(acts[layers-1-i], auto)
			}
		}
		if p.leak {
			r.Alloc(12<<20, line1(40, "log"))
		}
		r.Step(func() {
			r.Free(r.Alloc(512, line1(31, "step")), line1(31, "step")) // marks fall between events
			for range layers {
				if p.state > 0 && step == 0 {
					state = append(state, r.Alloc(p.state, line1(31, "step")))
				}
			}
			if p.optimizerTemporary > 0 {
				r.Free(r.Alloc(p.optimizerTemporary, line1(32, "foreach")), line1(32, "foreach"))
			}
		})
		if !p.keepGradients {
			grads = free(grads, zero)
		}
		if p.empty {
			if err := r.Empty(memtest.Of(memtest.Frame("empty_cache", "/usr/lib/site-packages/torch/cuda/memory.py", 280))); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = weights
	_ = state
	return analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4)))
}

func (p training) found(t *testing.T, rule string) *Finding {
	t.Helper()
	a := p.run(t)
	if i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Rule == rule }); i >= 0 {
		return &a.Findings[i]
	}
	return nil
}

const mib = 1 << 20

// Each rule finds its problem, claims what the clean program has less, at most, and finds
// nothing in the clean program.
func TestEachRuleFindsItsProblem(t *testing.T) {
	clean := training{parameters: 20 * mib, activations: 20 * mib}
	with := func(change func(p *training)) training {
		p := clean
		change(&p)
		return p
	}
	for _, tt := range []struct {
		rule       string
		bad, clean training
		least      int64 // that is claimed, bytes
		reserved   bool  // the claim is of reserved bytes
	}{
		{gpuprof.RuleGradientHeld, with(func(p *training) { p.keepGradients = true }), clean, 60 * mib, false},
		{gpuprof.RuleLeak, with(func(p *training) { p.leak = true }), clean, 40 * mib, false},
		{gpuprof.RulePeakActivation, with(func(p *training) { p.activations = 100 * mib }), with(func(p *training) { p.activations = 12 * mib }), 300 * mib, false},
		{gpuprof.RuleLargeTemporary, with(func(p *training) { p.temporary = 60 * mib }), clean, 40 * mib, false},
		{gpuprof.RuleOptimizerState, with(func(p *training) { p.state = 40 * mib }), with(func(p *training) { p.state = 2 * mib }), 80 * mib, false},
		{gpuprof.RuleOptimizerTemporary, with(func(p *training) { p.optimizerTemporary = 90 * mib }), clean, 60 * mib, false},
		{gpuprof.RuleCachedUnused, with(func(p *training) { p.cached = 400 * mib }), clean, 100 * mib, true},
		{gpuprof.RuleFragmentation, with(func(p *training) { p.odd = true }), clean, 20 * mib, true},
		{gpuprof.RuleEmptyCache, with(func(p *training) { p.empty = true }), clean, 0, true},
		{gpuprof.RuleOutOfMemory, with(func(p *training) { p.limit = 150 * mib }), clean, 10 * mib, true},
		{gpuprof.RuleAllocRetry, with(func(p *training) { p.odd, p.limit = true, 340*mib }), with(func(p *training) { p.odd = true }), 0, true},
		{gpuprof.RuleRounding, with(func(p *training) { p.small = 40_000 }), clean, 18 * mib, true},
		{gpuprof.RuleRounding, with(func(p *training) { p.roundup, p.parameters, p.activations = 2, 24*mib, 26*mib }), with(func(p *training) { p.roundup, p.parameters, p.activations = 2, 24*mib, 24*mib }), 10 * mib, true},
		{gpuprof.RuleWorkspace, with(func(p *training) { p.workspace = 32 * mib }), clean, 32 * mib, false},
		{gpuprof.RulePendingFree, with(func(p *training) { p.pending = 100 * mib }), clean, 18 * mib, false},
		{gpuprof.RulePrivatePool, with(func(p *training) { p.pools = true }), clean, 60 * mib, true},
	} {
		f := tt.bad.found(t, tt.rule)
		if f == nil {
			t.Errorf("%s is not found", tt.rule)
			continue
		}
		if c := tt.clean.found(t, tt.rule); c != nil {
			t.Errorf("%s is found in the clean program: %+v", tt.rule, c)
		}
		if f.ClaimBytes < tt.least || f.Title == "" || f.PyTorch == "" || (f.Of == ofReserved) != tt.reserved || f.Share > 1 {
			t.Errorf("%s: %+v; at least %d bytes are to be claimed", tt.rule, f, tt.least)
		}
	}
}

// No claim is above what the program really has less without the problem.
func TestClaimsAreBounds(t *testing.T) {
	clean := training{parameters: 20 * mib, activations: 20 * mib}
	for rule, change := range map[string]func(p *training){
		gpuprof.RuleGradientHeld:       func(p *training) { p.keepGradients = true },
		gpuprof.RuleLargeTemporary:     func(p *training) { p.temporary = 60 * mib },
		gpuprof.RuleOptimizerTemporary: func(p *training) { p.optimizerTemporary = 90 * mib },
		gpuprof.RuleLeak:               func(p *training) { p.leak = true },
		gpuprof.RuleWorkspace:          func(p *training) { p.workspace = 32 * mib },
		gpuprof.RulePendingFree:        func(p *training) { p.pending = 100 * mib },
	} {
		bad := clean
		change(&bad)
		f := bad.found(t, rule)
		saved := bad.run(t).Devices[0].Peak.Requested - clean.run(t).Devices[0].Peak.Requested
		if f == nil || f.ClaimBytes < saved*9/10 || f.ClaimBytes > saved*11/10 {
			t.Errorf("%s claims %+v, and the program without it has %d bytes less", rule, f, saved)
		}
	}
}

// The categories of a training add up to what the program allocated for each.
func TestCategories(t *testing.T) {
	p := training{parameters: 20 * mib, activations: 30 * mib, state: 40 * mib}
	got := map[string]int64{}
	for _, c := range p.run(t).Devices[0].Peak.Categories {
		got[c.Category] = c.Bytes
	}
	for kind, want := range map[string]int64{"persistent": layers * p.parameters, "optimizer state": layers * p.state} {
		if d := got[kind] - want; d < 0 || d > 8192 {
			t.Errorf("%s: %d bytes, not %d; all: %v", kind, got[kind], want, got)
		}
	}
	if got["activation"]+got["gradient"] < 100*mib || got["other"] > 8192 {
		t.Errorf("%v", got)
	}
}

// Two snapshots are compared by function, so that lines which only moved are no change.
func TestAgainst(t *testing.T) {
	before := training{parameters: 20 * mib, activations: 30 * mib}.run(t)
	after := training{parameters: 20 * mib, activations: 40 * mib}.run(t)
	after.Against(before)
	c := after.Before.Changes
	if len(c) == 0 || c[0].Where != "/home/u/train.py:20 in forward" || c[0].After-c[0].Before != 40*mib || after.Before.Peak != before.Devices[0].Peak.Requested {
		t.Errorf("%+v", after.Before)
	}
	for _, x := range c {
		if x.Where == "/home/u/train.py:10 in build" {
			t.Errorf("%+v did not change", x)
		}
	}
}

// The problems that were planted into PyTorch's own recordings are found at their lines.
func TestRecordedProblems(t *testing.T) {
	rule := func(name, rule string) *Finding {
		a := analyzed(t, fixture(t, name))
		for i := range a.Findings {
			if a.Findings[i].Rule == rule {
				return &a.Findings[i]
			}
		}
		return nil
	}
	for name, id := range map[string]string{"leak": gpuprof.RuleLeak, "empty-cache": gpuprof.RuleEmptyCache, "oom": gpuprof.RuleOutOfMemory, "stacks-all": gpuprof.RuleWorkspace, "lengths-roundup": gpuprof.RuleRounding} {
		if rule(name, id) == nil {
			t.Errorf("%s: %s is not found", name, id)
		}
		if f := rule("clean", id); f != nil {
			t.Errorf("clean: %+v", f)
		}
	}
	saved := counters(t, "lengths-roundup")["reserved_bytes.all.peak"] - counters(t, "lengths")["reserved_bytes.all.peak"]
	if f := rule("lengths-roundup", gpuprof.RuleRounding); f != nil && f.ClaimBytes != saved {
		t.Errorf("without the setting the allocator reserved %d bytes less: %+v", saved, f)
	}
	if rule("expandable", gpuprof.RuleFragmentation) != nil || rule("clean", gpuprof.RuleFragmentation) == nil {
		t.Error("expandable segments are the change for fragmentation")
	}
}

// A setting that is on is never advised, and the others of the file stay beside one that is.
func TestSettingsThatAreOn(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		own    bool // the member expandable_segments
		change string
		not    string
		claims bool
	}{
		"off":                 {"", false, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", ", ", true},
		"another setting":     {"max_split_size_mb:512", false, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512", "?", true},
		"on":                  {"expandable_segments:True", true, "in pieces of at most", "expandable_segments", false},
		"on by its text":      {"expandable_segments:true", false, "in pieces of at most", "expandable_segments", false},
		"on without its text": {"", true, "in pieces of at most", "expandable_segments", false},
	} {
		r := memtest.New(2, 15)
		r.Limit = 160 * mib
		var held []*pool.Block // two in each segment of 20 MiB
		for range 14 {
			held = append(held, r.Alloc(9*mib, line1(20, "forward")))
		}
		for i := 0; i < len(held); i += 2 {
			r.Free(held[i], line1(21, "forward"))
		}
		r.Alloc(40*mib, line1(22, "forward"))
		// Two freed blocks change their addresses, which the model does not follow: no setting is replayed.
		var addrs []*any
		for _, e := range r.Events {
			if at := &e.Members[1]; at.Key == "addr" && e.Members[0].Value != "segment_alloc" {
				addrs = append(addrs, &at.Value)
			}
		}
		one, other := *addrs[0], *addrs[2]
		for _, at := range addrs {
			switch *at {
			case one:
				*at = other
			case other:
				*at = one
			}
		}
		root := r.Snapshot()
		for _, m := range root.Members {
			if set, ok := m.Value.(*memtest.Dict); ok && m.Key == "allocator_settings" {
				for i := range set.Members {
					switch set.Members[i].Key {
					case "PYTORCH_CUDA_ALLOC_CONF":
						set.Members[i].Value = c.text
					case "expandable_segments":
						set.Members[i].Value = c.own
					}
				}
			}
		}
		a := analyzed(t, mustRead(t, memtest.Python(root, 4)))
		i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Rule == gpuprof.RuleOutOfMemory })
		if i < 0 {
			t.Errorf("%s: no error in %+v", name, a.Findings)
			continue
		}
		f := a.Findings[i]
		if !strings.Contains(f.PyTorch, c.change) || strings.Contains(f.PyTorch, c.not) || f.ClaimBytes > 0 != c.claims || f.Severity != gpuprof.High {
			t.Errorf("%s: %s, %+v", name, f.PyTorch, f)
		}
	}
}

// Trifles are of low severity, whatever their part of a small peak; a leak never is, as its answer is bad news.
func TestTrifles(t *testing.T) {
	for _, of := range []struct {
		rule  string
		bytes int64
		want  gpuprof.Severity
	}{{"", 20 * mib, gpuprof.Low}, {"", 63 * mib, gpuprof.Low}, {"", 64 * mib, gpuprof.High}, {gpuprof.RuleLeak, mib, gpuprof.High}} {
		d := &Device{}
		d.Peak.Requested = 128 * mib
		if f := (Finding{Rule: of.rule, Of: ofRequested, ClaimBytes: of.bytes}).weighSeverity(d); f.Severity != of.want {
			t.Errorf("%d of 128 MiB: %s", of.bytes/mib, f.Severity)
		}
	}
}

// States of 8 bits save three quarters, sharding is advised to several ranks alone.
func TestOptimizerState(t *testing.T) {
	run := func(by ...string) *Finding {
		r := memtest.New(2, 15)
		r.Alloc(100*mib, line1(10, "build"))
		for step := range 3 {
			g := r.Alloc(100*mib, &memtest.List{})
			r.Step(func() {
				r.Free(r.Alloc(512, line1(31, "step")), line1(31, "step"))
				if step == 0 {
					r.Alloc(200*mib, frames(append(by, "/home/u/train.py:step")...))
				}
			})
			r.Free(g, line1(33, "zero_grad"))
		}
		return ruleOf(t, r, gpuprof.RuleOptimizerState)
	}
	if f := run(); f == nil || f.ClaimBytes != 150*mib || strings.Contains(f.PyTorch, "hard") || !strings.Contains(f.PyTorch, "AdamW8bit") {
		t.Errorf("%+v", f)
	}
	if f := run("/site-packages/torch/distributed/fsdp/_step.py:step"); f == nil || f.ClaimBytes != 150*mib || !strings.Contains(f.PyTorch, "fully_shard") {
		t.Errorf("%+v", f)
	}
	// Weights in 4 bits say nothing of the states.
	r := memtest.New(2, 15)
	r.Alloc(100*mib, frames("/site-packages/bitsandbytes/nn/modules.py:forward"))
	for step := range 3 {
		g := r.Alloc(100*mib, &memtest.List{})
		r.Step(func() {
			r.Free(r.Alloc(512, line1(31, "step")), line1(31, "step"))
			if step == 0 {
				r.Alloc(200*mib, frames("/home/u/train.py:step"))
			}
		})
		r.Free(g, line1(33, "zero_grad"))
	}
	if f := ruleOf(t, r, gpuprof.RuleOptimizerState); f == nil || f.ClaimBytes != 150*mib {
		t.Errorf("%+v", f)
	}
	if f := run("/site-packages/bitsandbytes/optim/optimizer.py:init_state"); f != nil {
		t.Errorf("%+v", f)
	}
	if f := run("/site-packages/bitsandbytes/optim/optimizer.py:init_state", "c10d::Reducer"); f == nil || f.ClaimBytes != 0 {
		t.Errorf("%+v", f)
	}
}

// What an allocator keeps free of its segments is a finding from a tenth of the peak on.
func TestFragmentationOfAPart(t *testing.T) {
	below, above := 0, 0
	for k := range int64(8) {
		a := training{parameters: 20 * mib, activations: 20 * mib, state: 400 * mib * k, odd: true}.run(t)
		d := a.Devices[0]
		part := float64(d.PeakReserved-d.PeakRounded) / float64(d.PeakReserved)
		found := slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Rule == gpuprof.RuleFragmentation })
		switch {
		case part >= 0.10 && found:
			above++
		case part > 0.02 && part < 0.10 && !found:
			below++
		case part >= 0.10 || found:
			t.Errorf("%.3f of the peak: %v", part, found)
		}
	}
	if below == 0 || above == 0 {
		t.Errorf("%d below a tenth, %d above", below, above)
	}
}
