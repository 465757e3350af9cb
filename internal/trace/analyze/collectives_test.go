package analyze

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// collective adds a launch and a kernel that communicates on stream 20.
func (b *builder) collective(launch, start, end int64) *builder {
	b.corr++
	corr := b.corr
	b.host(model.API, "cudaLaunchKernel", launch, launch+2_000, func(h *model.Host) { h.Corr = corr })
	return b.gpu(model.Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, func(g *model.GPU) { g.Corr, g.Stream = corr, 20 })
}

// TestCollectivesOfAStep: work, idle time and the wait for a collective of one step, by hand.
// The kernel after the collective begins 10 us after its end, so the device waited for it.
func TestCollectivesOfAStep(t *testing.T) {
	b := newBuilder()
	for n := range int64(3) {
		at := n * 1_000_000
		b.host(model.Step, "ProfilerStep#"+string('0'+rune(n)), at, at+900_000)
		b.launch("gemm", at+10_000, 2_000, at+20_000, at+120_000)  // 20 us idle, 100 us work
		b.launch("gemm", at+20_000, 2_000, at+150_000, at+250_000) // 30 us idle, 100 us work
		b.collective(at+30_000, at+260_000, at+700_000)            // asked for 10 us after it
		b.launch("adam", at+40_000, 2_000, at+710_000, at+800_000) // 10 us after its end
	}
	out := CollectivesOf([]*Index{b.index(t)})
	if len(out) != 1 {
		t.Fatal(out)
	}
	c := out[0]
	if !slices.Equal(c.Steps, model.Column{1, 2}) || !slices.Equal(c.Dur, model.Column{440_000, 440_000}) || c.Names[c.Kind[0]] != "all-reduce" {
		t.Errorf("%+v", c)
	}
	// Asks, waits, and the step ends, 100 us after the last kernel; and again.
	if !slices.Equal(c.Moments, model.Column{0, 1, -1, 2, 3, -2}) {
		t.Fatalf("moments %v", c.Moments)
	}
	if !slices.Equal(c.Work[:3], model.Column{200_000, 0, 90_000}) || !slices.Equal(c.Idle[:3], model.Column{60_000, 0, 110_000}) || !slices.Equal(c.OtherCommunication, model.Column{0, 0, 0, 0, 0, 0}) {
		t.Errorf("work %v idle %v held %v", c.Work, c.Idle, c.OtherCommunication)
	}
	if c.Work[3] != 200_000 || c.Idle[3] != 100_000+60_000 { // the device did nothing between the steps
		t.Errorf("second step: work %v idle %v", c.Work[3], c.Idle[3])
	}
}

// TestCollectivesKeepTheLast: of very many collectives the last whole steps are kept.
func TestCollectivesKeepTheLast(t *testing.T) {
	b := newBuilder()
	for n := range int64(8) {
		at := n * 100_000_000
		b.host(model.Step, "ProfilerStep#"+string('0'+rune(n)), at, at+90_000_000)
		for k := range int64(1100) {
			from := at + k*50_000
			b.collective(from, from+10_000, from+20_000)
			b.launch("gemm", from+5_000, 2_000, from+21_000, from+40_000)
		}
	}
	c := CollectivesOf([]*Index{b.index(t)})[0]
	if c.Cut != 4 || !slices.Equal(c.Steps, model.Column{5, 6, 7}) || len(c.Dur) != 3300 || c.After[0] != 0 || c.After[1] != 1 || slices.Max(c.Step) != 2 {
		t.Errorf("cut %d, steps %v, %d collectives", c.Cut, c.Steps, len(c.Dur))
	}
}

// TestCollectivesOnTheHost: gloo's collectives and the operators of the main thread.
func TestCollectivesOnTheHost(t *testing.T) {
	b := newBuilder()
	for n := range int64(3) {
		at := n * 1_000_000
		b.host(model.Step, "ProfilerStep#"+string('0'+rune(n)), at, at+900_000)
		b.host(model.Op, "aten::mm", at+20_000, at+120_000)
		b.host(model.Annotation, "gloo:all_reduce", at+130_000, at+600_000, onLane(1))
		b.host(model.Op, "aten::add_", at+640_000, at+700_000)
	}
	c := CollectivesOf([]*Index{b.index(t)})[0]
	if !c.OnHost || !slices.Equal(c.Moments[:3], model.Column{0, 1, -1}) || !slices.Equal(c.Work[:3], model.Column{100_000, 0, 60_000}) {
		t.Errorf("%+v", c)
	}
	if c.Idle[2] < 40_000 { // from the end of the all-reduce to the next operator
		t.Errorf("idle %v", c.Idle)
	}
}

// TestCollectivesThatEndLate: of two all-reduces of gloo the rank goes on when one ends, and
// the worker's thread notes the ends later, each after the rank's next operator began. That is
// a wait all the same, up to the operator, and no time in which the rank does nothing. One
// that goes on for long after the operator was not waited for.
func TestCollectivesThatEndLate(t *testing.T) {
	step := func(ends int64) *Collectives {
		b := newBuilder()
		for n := range int64(3) {
			at := n * 500_000_000
			b.host(model.Step, "ProfilerStep#"+string('0'+rune(n)), at, at+490_000_000)
			b.host(model.Op, "aten::mm", at+1_000_000, at+2_000_000)
			b.host(model.Annotation, "gloo:all_reduce", at+2_000_000, at+ends, onLane(1))
			b.host(model.Annotation, "gloo:all_reduce", at+2_100_000, at+ends+500_000, onLane(2))
			b.host(model.Op, "aten::copy_", at+200_000_000, at+300_000_000)
		}
		return &CollectivesOf([]*Index{b.index(t)})[0]
	}
	c := step(200_300_000)
	if !slices.Equal(c.Moments[:4], model.Column{0, 2, 1, -1}) || !slices.Equal(c.Dur[:2], model.Column{198_000_000, 198_700_000}) || !slices.Equal(c.Idle[:3], model.Column{1_000_000, 0, 0}) {
		t.Errorf("0.3 ms late: moments %v, durations %v, idle %v", c.Moments, c.Dur, c.Idle)
	}
	c = step(206_000_000)
	if slices.Contains(c.Moments, 1) || !slices.Equal(c.Dur[:2], model.Column{204_000_000, 204_400_000}) || c.Idle[2] < 190_000_000 {
		t.Errorf("6 ms later: moments %v, durations %v, idle %v", c.Moments, c.Dur, c.Idle)
	}
}
