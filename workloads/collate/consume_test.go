package collate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

func openSim(t testing.TB) device.Device {
	t.Helper()
	lib := sim.Library(t)
	sim.Configure(t, lib, "")
	t.Cleanup(func() { sim.Check(t, lib) })
	d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// consumeOn runs the kernel on a device over random edges and compares every
// element with the reference, and what lies around the result with the poison.
func consumeOn(t *testing.T, d device.Device, edges, passes int, cutoff float64, seed uint64) {
	t.Helper()
	const atoms, before, after = 5, 3, 2
	rng := rand.New(rand.NewPCG(seed, 1))
	block := make([]int32, atoms+4*edges+1)
	src, vec := atoms, atoms+edges
	for i := range atoms {
		block[i] = int32(rng.Uint32())
	}
	for e := range edges {
		block[src+e] = int32(rng.IntN(atoms+1)) - 1
		for k := range 3 {
			block[vec+3*e+k] = int32(math.Float32bits(float32((2*rng.Float64() - 1) * cutoff / 2)))
		}
	}
	alloc := func(words int, p device.Place) device.Buffer {
		b, err := d.Alloc(4*words, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Free(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	st, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	in, dev := alloc(len(block), device.Pinned), alloc(len(block), device.OnDevice)
	result, out := alloc(before+edges+after, device.Pinned), alloc(before+edges+after, device.OnDevice)
	copy(device.Ints(in), block)
	poison(result.Bytes())
	fn, err := d.Load(&consumeKernel)
	if err != nil {
		t.Fatal(err)
	}
	var a device.Args
	a.SetBuf(0, out)
	a.SetBuf(1, dev)
	for i, v := range []int{0, src, vec, before, passes} {
		a.SetInt(2+i, v)
	}
	a.SetF32(7, float32(cutoff))
	for _, err := range []error{
		st.Copy(dev, 0, in, 0, in.Len()), st.Copy(out, 0, result, 0, out.Len()), st.Launch(fn, edges, &a), st.Copy(result, 0, out, 0, out.Len()), st.Sync(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := device.Floats(result)
	var diff, sum float64
	for e := range edges {
		ref := 0.0
		if from := block[src+e]; from >= 0 {
			ref = consumeRef(block[from], floatsOf(in.Bytes())[vec+3*e:][:3], passes, cutoff)
		}
		d := float64(got[before+e]) - ref
		diff, sum = diff+d*d, sum+ref*ref
	}
	if !(math.Sqrt(diff) <= tolerance*math.Sqrt(sum)) {
		t.Errorf("%d edges, %d passes: relative error %g", edges, passes, math.Sqrt(diff/sum))
	}
	for i := range before + after {
		if i >= before {
			i += edges
		}
		if device.Ints(result)[i] != -2 {
			t.Errorf("%d edges: element %d beside the result was written", edges, i-before)
		}
	}
}

func TestConsumeMatchesReference(t *testing.T) {
	d := openHost(t, 0)
	for _, n := range []int{1, 63, 64, 65, 1000, maxPasses} {
		consumeOn(t, d, 300, n, 4.083, uint64(n))
	}
	rapid.Check(t, func(r *rapid.T) {
		consumeOn(t, d, rapid.IntRange(0, 700).Draw(r, "edges"), rapid.IntRange(0, 200).Draw(r, "passes"), rapid.Float64Range(0.5, 50).Draw(r, "cutoff"), rapid.Uint64().Draw(r, "seed"))
	})
}

func TestConsumeOnSimulatedGPU(t *testing.T) {
	d := openSim(t)
	for _, edges := range []int{0, 1, 31, 255, 256, 257, 1000} {
		consumeOn(t, d, edges, 70, 4.083, uint64(edges))
	}
	consumeOn(t, d, 33, 0, 4, 1)
	consumeOn(t, d, 33, 5000, 9, 2)
}

// The whole pipeline through a driver's calls, memory that only the device sees
// included.
func TestChecksPassOnSimulatedGPU(t *testing.T) {
	for _, set := range []string{"workers=0", "workers=2,padded=on,pinned=batch", "workers=1,worker_kind=process,pinned=off,streams=1", "workers=0,batch=1,pinned=off,async_copy=off,item_reads=2"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSim(t), nil, "small", append([]string{"batch=3", "probes=9", "consume=5"}, strings.Split(set, ",")...)...)
			checks, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				if !c.Pass {
					t.Errorf("%+v", c)
				}
			}
			for i := range 6 {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
