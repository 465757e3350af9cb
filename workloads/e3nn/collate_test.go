package e3nn

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// batchesOf is the input of a preset with n batches, and room for any of them.
func batchesOf(tb testing.TB, n int, preset string, set ...string) (*input, *edgeBuffers) {
	tb.Helper()
	d, err := host.Open(host.Options{Threads: 1})
	if err != nil {
		tb.Fatal(err)
	}
	in, err := openInput(tb.Context(), workloads.Read[settings](resolve(tb, preset, set...).Knobs), 1)
	if err != nil {
		tb.Fatal(err)
	}
	if err := in.keepBatches(context.Background(), n); err != nil {
		tb.Fatal(err)
	}
	mem := op.Arena{Dev: d}
	room := int64(in.maxEdges() + in.maxRow)
	to := &edgeBuffers{
		src: mem.Words("sources", room, device.Pageable), dst: mem.Words("destinations", room, device.Pageable),
		rowptr: mem.Words("row starts", int64(in.batch)+1, device.Pageable), vec: mem.Words("vectors", 3*room, device.Pageable),
	}
	if mem.Err != nil {
		tb.Fatal(mem.Err)
	}
	tb.Cleanup(func() {
		if err := mem.Free(); err != nil {
			tb.Error(err)
		}
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return in, to
}

// rows are a batch as it is to be copied to the device, bit for bit.
type rows struct {
	src, dst, rowptr []int32
	vec              []uint32
}

// collated makes a batch in spoilt memory.
func collated(c *collator, to *edgeBuffers, batch int) rows {
	for _, b := range []device.Buffer{to.src, to.dst, to.rowptr, to.vec} {
		for i := range device.Ints(b) {
			device.Ints(b)[i] = math.MinInt32 + int32(i)
		}
	}
	e := c.collate(to, batch)
	out := rows{slices.Clone(device.Ints(to.src)[:e]), slices.Clone(device.Ints(to.dst)[:e]), slices.Clone(device.Ints(to.rowptr)), nil}
	for _, v := range device.Floats(to.vec)[:3*e] {
		out.vec = append(out.vec, math.Float32bits(v))
	}
	return out
}

// plain puts the edges of one point behind those of another.
func plain(in *input, batch int, edges func(p [3]float64) *structure.Edges) rows {
	out := rows{rowptr: []int32{0}}
	for r, point := range in.batches[batch] {
		e := edges(in.point(point))
		for i, src := range e.Src {
			if len(out.src) < in.edges[batch] {
				out.src, out.dst = append(out.src, src), append(out.dst, int32(r))
				for _, v := range e.Vec[3*i : 3*i+3] {
					out.vec = append(out.vec, math.Float32bits(v))
				}
			}
		}
		out.rowptr = append(out.rowptr, int32(len(out.src)))
	}
	return out
}

func (r rows) equal(other rows) bool {
	return slices.Equal(r.src, other.src) && slices.Equal(r.dst, other.dst) && slices.Equal(r.rowptr, other.rowptr) && slices.Equal(r.vec, other.vec)
}

// A batch is the same in every bit however many goroutines make it, and what
// trying every atom finds.
func TestCollateAnyThreads(t *testing.T) {
	tests := []struct {
		batches int
		set     string
		brute   bool // few enough for the oracle
	}{
		{3, "small,batch=100", true},
		{2, "small,batch=1", true},
		{3, "small,batch=300,cutoff=1", true}, // most rows are empty
		{3, "small,batch=300,cutoff=1,edges=9", true},
		{1, "small,points=atoms,batch=12,cutoff=9", true},
		{2, "small,edges=600", false}, // the prefix ends inside a row
		{2, "deepaw,batch=700", false},
		{1, "mace-large", false}, // 158,000 edges
		{2, "mace-large,batch=150", false},
		{1, "mace-large,batch=150,edges=20001", false},
		{1, "mace-large,batch=150,edges=1", false},
		{1, "mace-large,batch=150,edges=23700", false},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			set := strings.Split(tt.set, ",")
			in, to := batchesOf(t, tt.batches, set[0], set[1:]...)
			if len(in.batches) != tt.batches {
				t.Fatalf("%d batches", len(in.batches))
			}
			var want []rows
			for b := range in.batches {
				want = append(want, plain(in, b, func(p [3]float64) *structure.Edges {
					if tt.brute {
						return structure.BruteForce(in.crystal, in.finder.Cutoff(), p, in.atoms)
					}
					e := &structure.Edges{}
					in.finder.Append(e, p, in.atoms)
					return e
				}))
			}
			for _, threads := range []int{1, 2, 8} {
				c := newCollator(in, threads)
				if c.threadCount() != threads {
					t.Errorf("%d threads, want %d", c.threadCount(), threads)
				}
				for i := range 2 * len(in.batches) {
					b := i % len(in.batches)
					if !collated(c, to, b).equal(want[b]) {
						t.Fatalf("%d threads, batch %d: not what rows one by one are", threads, i)
					}
				}
				c.close()
			}
		})
	}
}

// A session whose batches several goroutines make passes its check, gives the
// same result, and allocates nothing.
func TestCollateBesideTheSteps(t *testing.T) {
	results := func(threads int) (out [][]float32) {
		s := openSession(t, "small", "batch=40")
		s.batches.close()
		s.batches = newCollator(s.in, threads)
		passes(t, s)
		for i := range 6 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Compute.Sync(); err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(device.Floats(s.slots[i%depth].out)))
		}
		if in := s.Input(); in["collate_threads"] != threads {
			t.Errorf("collate_threads is %v", in["collate_threads"])
		}
		noAllocations(t, s)
		return out
	}
	want := results(1)
	for i, got := range results(3) {
		if !slices.Equal(got, want[i]) {
			t.Errorf("step %d differs", i)
		}
	}
}

// Helpers allocate nothing either. AllocsPerRun would leave them one processor,
// and what the runtime itself allocates now and then is not in every attempt.
func TestCollateAllocatesNothing(t *testing.T) {
	in, to := batchesOf(t, 2, "small")
	for _, threads := range []int{1, 4} {
		c := newCollator(in, threads)
		least := uint64(math.MaxUint64)
		for range 50 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range 10 {
				c.collate(to, i%2)
			}
			runtime.ReadMemStats(&after)
			least = min(least, after.Mallocs-before.Mallocs)
			if least == 0 {
				break
			}
		}
		c.close()
		if least > 0 {
			t.Errorf("%d threads: 10 batches allocate %d times", threads, least)
		}
	}
}

func TestCollators(t *testing.T) {
	in := func(edges ...int) *input { return &input{edges: edges} }
	for _, tt := range []struct {
		in         *input
		device     string
		processors int
		want       int
	}{
		{in(158000), "cuda", 16, 8}, {in(158000), "cuda", 128, 8}, {in(158000), "cuda", 6, 3}, {in(158000), "cuda", 3, 1}, {in(158000), "cuda", 1, 1},
		{in(12672), "cuda", 16, 1}, {in(30000, 34000), "cuda", 16, 3}, {in(1), "cuda", 16, 1},
		{in(158000), "host", 16, 1},
	} {
		if got := collators(tt.in, tt.device, tt.processors); got != tt.want {
			t.Errorf("%v edges on %s with %d processors: %d goroutines, want %d", tt.in.edges, tt.device, tt.processors, got, tt.want)
		}
	}
}

// The stage collate at the sizes of the presets for GPUs: diamond's 158,000
// edges, and about 74,250 of HfO2.
func BenchmarkCollateStage(b *testing.B) {
	for _, preset := range []string{"mace-large", "deepaw"} {
		in, to := batchesOf(b, 1, preset)
		for _, threads := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("%s/threads=%d", preset, threads), func(b *testing.B) {
				c := newCollator(in, threads)
				defer c.close()
				b.ReportAllocs()
				for b.Loop() {
					c.collate(to, 0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(in.edges[0]), "ns/edge")
			})
		}
	}
}
