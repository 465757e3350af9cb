package op

import (
	"testing"

	"pgregory.net/rapid"
)

// Lanes cover every copy, read none that does not exist and write each once.
func TestLanesOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mul, v := rapid.IntRange(1, 600).Draw(t, "mul"), rapid.IntRange(1, 4).Draw(t, "copies")
		n, step := lanesOf(mul, v)
		written := make([]int, mul)
		for u := range n {
			for c := range v {
				at := u + c*step
				if at >= mul {
					t.Fatalf("lane %d of %d reads copy %d of %d", u, n, at, mul)
				}
				if u < step || c == v-1 {
					written[at]++
				}
			}
		}
		for at, times := range written {
			if times != 1 {
				t.Fatalf("copy %d of %d is written %d times", at, mul, times)
			}
		}
		if n > (mul+v-1)/v+max(v-2, 0) {
			t.Fatalf("%d lanes of %d copies for %d", n, v, mul)
		}
	})
}

// In a plan all lanes of a warp have the warp's degrees (its loops are unrolled
// for them), every value is written once a pass, and a block's shared memory is
// what every GPU grants.
func TestPlan(t *testing.T) {
	for name, tp := range cudaProducts(t) {
		for _, impl := range []string{ImplFused, ImplCSR} {
			for threads := warpLanes; threads <= maxTPThreads; threads += warpLanes {
				op := TensorProduct{TP: tp, Impl: impl, Layout: MulIr, Threads: threads}
				if op.Check() != nil {
					continue
				}
				tab, err := op.compileTable()
				if err != nil {
					t.Fatal(err)
				}
				plan, err := op.planFor(tab)
				if err != nil {
					t.Fatal(err)
				}
				if plan.shared > sharedBytes {
					t.Errorf("%s %s: %d bytes of shared memory", name, impl, plan.shared)
				}
				checkLanes(t, name+" "+impl, op, plan)
			}
		}
	}
}

func checkLanes(t *testing.T, what string, op TensorProduct, plan tpPlan) {
	t.Helper()
	warps, lanes, passes := plan.ints[plan.ints[planWarps]:], plan.ints[plan.ints[planLanes]:], int(plan.ints[planPasses])
	if want := plan.tiles * passes * plan.threads * laneInts; len(lanes) != want {
		t.Fatalf("%s: %d integers of lanes, expected %d", what, len(lanes), want)
	}
	written := make([]int, op.TP.Out.Dim())
	for i := range plan.tiles * passes * plan.threads {
		l, w := lanes[i*laneInts:][:laneInts], warps[i/warpLanes*warpInts:][:warpInts]
		d1, d3, copies := int(w[4]), int(w[5]), int(w[6])
		switch {
		case d3 == 0 && l[12] == 0:
			continue // no warp
		case l[12] != 0 && int(l[11]) != d3 || d1 != 0 && (int(l[3]) != d1 || int(l[11]) != d3) || copies != copiesOf(d1, d3) || d1 != 0 && passes > 1:
			t.Fatalf("%s, %d threads: lane %d is %v, its warp %v", what, plan.threads, i, l, w)
		case int(w[2]*w[3])+warpInts > int(plan.ints[planRegion]) || w[3] < 1 || w[3] > maxBatch:
			t.Fatalf("%s, %d threads: a batch of %d edges of %d floats in a region of %d", what, plan.threads, w[3], w[2], plan.ints[planRegion])
		case d1 > 0 && (l[7]+int32(d1*((d3+3)/4*4)) > w[2]):
			t.Fatalf("%s, %d threads: lane %d reads M beyond %d floats", what, plan.threads, i, w[2])
		}
		if i/plan.threads%passes != 0 {
			continue
		}
		for v := range copies {
			if l[12] != ownAll && (l[12] != ownLast || v != copies-1) {
				continue
			}
			for k := range l[11] {
				written[l[8]+int32(v)*l[9]+k*l[10]]++
			}
		}
	}
	for at, times := range written {
		if times != 1 && (times != 0 || op.Impl != ImplFused) {
			t.Fatalf("%s, %d threads: value %d is written %d times", what, plan.threads, at, times)
		}
	}
}
