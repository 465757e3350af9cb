package trace

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLink: which call a device event belongs to.
func TestLink(t *testing.T) {
	call := func(name string, start int64, corr int64, edit ...func(*Host)) func(*builder) {
		return func(b *builder) {
			b.host(API, name, start, start+5, append(edit, func(h *Host) { h.Corr = corr })...)
		}
	}
	kernel := func(start, corr int64, edit ...func(*GPU)) func(*builder) {
		return func(b *builder) {
			b.gpu(Kernel, "k", start, start+10, append(edit, func(g *GPU) { g.Corr = corr })...)
		}
	}
	process := func(p int32) func(*GPU) { return func(g *GPU) { g.Process = p } }
	otherProcess := func(b *builder) { b.lane(1); b.t.Lanes[1].Process = 2 }
	for _, c := range []struct {
		name  string
		build []func(*builder)
		want  []int64 // start of each device event's launch, -1 none
	}{
		{"one each", []func(*builder){call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 2), kernel(40, 2), kernel(30, 1)}, []int64{10, 20}},
		{"starts before its launch", []func(*builder){call("cudaLaunchKernel", 100, 1), kernel(90, 1)}, []int64{100}},
		{"no id", []func(*builder){call("cudaLaunchKernel", 10, 0), kernel(30, 0)}, []int64{-1}},
		{"an id no call has", []func(*builder){call("cudaLaunchKernel", 10, 1), kernel(30, 2)}, []int64{-1}},
		{"an operator's external id is no launch", []func(*builder){
			func(b *builder) { b.host(Op, "aten::mm", 10, 20, withExt(7)) }, kernel(30, 7)}, []int64{-1}},
		{"one graph, many kernels", []func(*builder){call("cudaGraphLaunch", 10, 1), kernel(30, 1), kernel(50, 1), kernel(70, 1)}, []int64{10, 10, 10}},
		{"repeated id, the last one before", []func(*builder){call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 50, 1), kernel(30, 1), kernel(80, 1)}, []int64{10, 50}},
		{"repeated id, none before", []func(*builder){call("cudaLaunchKernel", 50, 1), call("cudaLaunchKernel", 90, 1), kernel(30, 1)}, []int64{50}},
		{"repeated id, a call that launches nothing is later", []func(*builder){
			call("cudaLaunchKernel", 10, 1), call("cudaStreamSynchronize", 20, 1), call("cudaEventRecord", 22, 1), kernel(30, 1)}, []int64{10}},
		{"only a call that launches nothing", []func(*builder){call("cudaEventRecord", 22, 1), kernel(30, 1)}, []int64{22}},
		{"two processes, one id", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(1)), kernel(50, 1, process(2))}, []int64{10, 20}},
		{"an id of the other process only", []func(*builder){otherProcess, call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(1))}, []int64{-1}},
		{"unknown process, unique id", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 2, onLane(1)), kernel(30, 1, process(-1)), kernel(50, 2, process(-1))}, []int64{10, 20}},
		{"unknown process, id in two", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(-1))}, []int64{-1}},
		{"unknown process, repeated in one", []func(*builder){
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1), kernel(30, 1, process(-1))}, []int64{20}},
		{"large and negative ids", []func(*builder){
			call("cudaLaunchKernel", 10, -1<<62), call("cudaLaunchKernel", 20, 1<<62), kernel(30, -1<<62), kernel(50, 1<<62)}, []int64{10, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			for _, f := range c.build {
				f(b)
			}
			tr := b.finish()
			var got []int64
			for i := range tr.GPU {
				start := int64(-1)
				if l := tr.GPU[i].Launch; l >= 0 {
					start = tr.Host[l].Start
				}
				got = append(got, start)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("launches at %v, want %v", got, c.want)
			}
		})
	}
}

// TestStrideIDs: ids with a stride do not make the search for them slow.
func TestStrideIDs(t *testing.T) {
	for shift := range 50 {
		const n = 4096
		p := launchTable{n: n, low: 0, high: (n - 1) << shift}
		p.allocate()
		if p.dense != nil {
			if len(p.dense) > spread*n+1024 {
				t.Errorf("stride 2^%d: a list of %d for %d ids", shift, len(p.dense), n)
			}
			continue
		}
		for i := range int64(n) {
			if s := p.slot(i << shift); s.call != notAsked {
				t.Fatalf("stride 2^%d: id %d is there already", shift, i)
			}
			p.ask(i << shift)
		}
		// A run of taken slots is what a search that misses walks through.
		longest, run := 0, 0
		for i := range 2 * len(p.slots) {
			run++
			if p.slots[i%len(p.slots)].call == notAsked {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > n/16 {
			t.Errorf("stride 2^%d: %d of %d slots in a row are taken", shift, longest, n)
		}
	}
}

// TestSparseIDs: both kinds of table find the same calls.
func TestSparseIDs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		wide := *tr
		wide.Host, wide.GPU = slices.Clone(tr.Host), slices.Clone(tr.GPU)
		for i := range wide.Host {
			wide.Host[i].Corr *= 1 << 40
		}
		for i := range wide.GPU {
			wide.GPU[i].Corr *= 1 << 40
		}
		tr.Finish()
		wide.Finish()
		for i := range tr.GPU {
			if tr.GPU[i].Launch != wide.GPU[i].Launch {
				r.Fatalf("operation %d: launch %d by list, %d by open addressing", i, tr.GPU[i].Launch, wide.GPU[i].Launch)
			}
		}
	})
}

// TestSorted: Finish sorts as a plain stable sort does, whatever the order of
// the file: sorted, reversed, lists after each other, or none at all.
func TestSorted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		if rapid.Bool().Draw(r, "shuffle") {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
			rng.Shuffle(len(tr.Host), func(i, j int) { tr.Host[i], tr.Host[j] = tr.Host[j], tr.Host[i] })
			rng.Shuffle(len(tr.GPU), func(i, j int) { tr.GPU[i], tr.GPU[j] = tr.GPU[j], tr.GPU[i] })
		}
		host := slices.Clone(tr.Host)
		slices.SortStableFunc(host, func(a, b Host) int {
			switch {
			case a.Lane != b.Lane:
				return int(a.Lane) - int(b.Lane)
			case hostBefore(&a, &b):
				return -1
			case hostBefore(&b, &a):
				return 1
			}
			return 0
		})
		gpu := slices.Clone(tr.GPU)
		slices.SortStableFunc(gpu, func(a, b GPU) int {
			switch {
			case gpuBefore(&a, &b):
				return -1
			case gpuBefore(&b, &a):
				return 1
			}
			return 0
		})
		tr.Finish()
		if diff := cmp.Diff(host, tr.Host); diff != "" {
			r.Fatal(diff)
		}
		for i := range gpu {
			gpu[i].Launch = tr.GPU[i].Launch
		}
		if diff := cmp.Diff(gpu, tr.GPU); diff != "" {
			r.Fatal(diff)
		}
	})
}

func TestSortOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 3, 7, 100, 1001} {
		for _, kind := range []string{"random", "sorted", "reversed", "two lists", "equal"} {
			v := make([]int, n)
			for i := range v {
				switch kind {
				case "random":
					v[i] = rng.IntN(n)
				case "sorted":
					v[i] = i
				case "reversed":
					v[i] = -i
				case "two lists":
					v[i] = i % (n/2 + 1)
				}
			}
			order, want := make([]int32, n), make([]int32, n)
			for i := range order {
				order[i], want[i] = int32(i), int32(i)
			}
			slices.SortStableFunc(want, func(a, b int32) int { return v[a] - v[b] })
			sortOrder(order, func(a, b int32) bool { return v[a] < v[b] })
			if !slices.Equal(order, want) {
				t.Fatalf("%d %s: %v, want %v", n, kind, order, want)
			}
			sorted := slices.Clone(v)
			permute(sorted, order)
			if !slices.IsSorted(sorted) {
				t.Fatalf("%d %s: moved to %v", n, kind, sorted)
			}
		}
	}
}

func TestBackwardsInTime(t *testing.T) {
	b := newBuilder().host(Op, "aten::mm", 50, 20).gpu(Kernel, "k", 100, 90).gpu(Kernel, "l", 120, 130)
	x := b.index(t)
	if got := x.T.Host[0].Dur(); got != 0 {
		t.Errorf("the operator lasts %d ns", got)
	}
	if d := x.Devices[0]; d.Window != (Span{50, 130}) || d.Worked != (Span{100, 130}) || d.Busy.Total() != 10 || d.Unknown.Total() != 50+20 {
		t.Errorf("window %v, busy %v, unknown %v", d.Window, d.Busy, d.Unknown)
	}
}
