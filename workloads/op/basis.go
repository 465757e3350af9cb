package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed basis.ptx.zst
var basisPTX string

// Basis expands every edge length r = |vec| in N radial functions, Gaussians (e3nn's soft_one_hot_linspace) or Bessel
// functions (DimeNet). Envelope multiplies each by DimeNet's polynomial cutoff u of order p = 6:
//
//	vec [E,3] -> b [E,N]
//	gaussian  b_i = exp(-((r-mu_i)/Delta)^2)/1.12, mu_i = i*Delta, Delta = Cutoff/(N-1)
//	bessel    b_i = sqrt(2/c) sin(n pi r/c)/r, n = i+1, c = Cutoff; at r = 0 sqrt(2/c) n pi/c
//	u(r)      1 - (p+1)(p+2)/2 t^p + p(p+2) t^(p+1) - p(p+1)/2 t^(p+2), t = r/c; 0 for t >= 1
type Basis struct {
	Kind     string // "gaussian" or "bessel"
	N        int
	Cutoff   float64
	Envelope bool
}

// One item of basisKernel is one edge.
var basisKernel = device.Typed[basisArgs](device.Kernel{Name: "basis", Host: basisHost, Grain: 64, PTX: basisPTX, Threads: 128, PerBlock: 128})

const (
	basisGaussian = iota
	basisBessel
)

func (s Basis) kindNumber() (int, error) {
	switch s.Kind {
	case "gaussian":
		if s.N < 2 {
			return 0, gpuprof.Errorf(nil, "a gaussian basis of %d functions has no spacing", s.N).WithFix("use 2 or more")
		}
		return basisGaussian, nil
	case "bessel":
		if s.N < 1 {
			return 0, gpuprof.Errorf(nil, "a bessel basis of %d functions is empty", s.N).WithFix("use 1 or more")
		}
		return basisBessel, nil
	}
	return 0, gpuprof.Errorf(nil, "unknown kind %q", s.Kind).WithFix("use gaussian or bessel")
}

// Check returns the reason why the basis cannot be bound, or nil.
func (s Basis) Check() error {
	if _, err := s.kindNumber(); err != nil {
		return err
	}
	if !(s.Cutoff > 0) || s.Cutoff > 1e6 {
		return gpuprof.Errorf(nil, "the cutoff %g is not a positive length", s.Cutoff).WithFix("use a value such as 4")
	}
	return nil
}

// Bind binds the operation for up to edgeCap edges.
func (s Basis) Bind(dev device.Device, vec, b device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "basis", edgeCap)
	k.failOn(s.Check())
	kind, _ := s.kindNumber() // Check has accepted it
	k.checkBuffer("vec", vec, 3*int64(edgeCap))
	k.checkBuffer("b", b, int64(s.N)*int64(edgeCap))
	// The kernel computes in fp64 on host and GPU.
	k.b.minimum = rate{perEdge: Moved(s.edgeFlops(), 3, s.N).In("fp64", int64(s.edgeFlops()))}
	k.addLaunch(&basisKernel, items{perEdge: 1}, k.b.minimum, basisArgs{
		vec: vec, b: b, count: itemCount, functions: s.N, kind: kind, envelope: s.Envelope,
		cutoff: float32(s.Cutoff),
	})
	return k.finishBinding()
}

// edgeFlops counts the operations of one edge; an exponential, sine or root counts as one. The length takes 6, each
// function 5 (Gaussian) or 3 (Bessel, by a recurrence). An envelope takes 11 more, and one product per function.
func (s Basis) edgeFlops() int {
	n := 6
	if s.Kind == "gaussian" {
		n += 5 * s.N
	} else {
		n += 5 + 3*s.N
	}
	if s.Envelope {
		n += 11 + s.N
	}
	return n
}
