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

// In a plan all lanes of a warp have one degree (a barrier inside the kernels'
// switch relies on it), every value is written once a pass, and a block's shared
// memory is what every GPU grants.
func TestPlan(t *testing.T) {
	for name, tp := range cudaProducts(t) {
		for _, impl := range []string{ImplFused, ImplCSR, ImplCSRMLP} {
			for threads := warpLanes; threads <= maxTPThreads; threads += warpLanes {
				op := TensorProduct{TP: tp, Impl: impl, Layout: MulIr, Hidden: 30, Threads: threads}
				if op.Check() != nil {
					continue
				}
				tab, err := op.compile()
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
	lanes, passes := plan.ints[plan.ints[planLanes]:], int(plan.ints[planPasses])
	if want := plan.tiles * passes * plan.threads * laneInts; len(lanes) != want {
		t.Fatalf("%s: %d integers of lanes, expected %d", what, len(lanes), want)
	}
	written := make([]int, op.TP.Out.Dim())
	for part := range plan.tiles * passes {
		for i := range plan.threads {
			l := lanes[(part*plan.threads+i)*laneInts:][:laneInts]
			if first := lanes[(part*plan.threads+i/warpLanes*warpLanes)*laneInts:]; l[11] != first[11] {
				t.Fatalf("%s, %d threads: lane %d of part %d has %d components, its warp %d", what, plan.threads, i, part, l[11], first[11])
			}
			if part%passes != 0 {
				continue
			}
			copies := copiesOf(int(l[11]))
			for v := range copies {
				if l[12] != ownAll && (l[12] != ownLast || v != copies-1) {
					continue
				}
				for k := range l[11] {
					written[l[8]+int32(v)*l[9]+k*l[10]]++
				}
			}
		}
	}
	for at, times := range written {
		if times != 1 && (times != 0 || op.Impl != ImplFused) {
			t.Fatalf("%s, %d threads: value %d is written %d times", what, plan.threads, at, times)
		}
	}
}
