package serving

import (
	_ "embed"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

//go:embed synthetic.ptx.gz
var syntheticPTX string

// images repeat with this period, so that each answer can be compared with its request's.
const images = 64

// syntheticKernel is a network that takes a given time: after so long a wait it answers
// every request x of the batch with 1 - 2 x. A GPU spins, the host sleeps and leaves its
// cores to the sender. Parameters: out, in, requests, microseconds, nanoseconds beyond.
var syntheticKernel = gpuprof.Kernel{
	Name: "synthetic", Sig: "bbiii", Serial: true,
	Host: func(a *gpuprof.Args, _, _ int) {
		traffic.Sleep(time.Duration(a.Int(3))*time.Microsecond + time.Duration(a.Int(4)))
		out, in := a.Floats(0), a.Floats(1)
		for i := range a.Int(2) {
			out[i] = 1 - 2*in[i]
		}
	},
	PTX: syntheticPTX, Entry: "serving_synthetic", Threads: 32, PerBlock: 32,
}

// synthetic is what a request holds and what its answer is, without a network.
type synthetic struct {
	tau, alpha float64
	inputs     [images]float32
	fn         gpuprof.Func
}

func newSynthetic(d gpuprof.Device, c gpuprof.Config) (*synthetic, error) {
	s := &synthetic{tau: c.Knobs.Float("tau"), alpha: c.Knobs.Float("alpha")}
	rng := rand.New(rand.NewPCG(c.Seed, 0x73657276696e67))
	for i := range s.inputs {
		s.inputs[i] = float32(rng.IntN(1<<20)+1) / (1 << 20)
	}
	var err error
	s.fn, err = d.Load(&syntheticKernel)
	return s, err
}

// takes is the time of a batch.
func (s *synthetic) takes(b int) time.Duration {
	return time.Duration(math.Round(1e9 * (s.tau + s.alpha*float64(b))))
}

// answer is that of image i.
func (s *synthetic) answer(i int) float32 { return 1 - 2*s.inputs[i%images] }

// set puts the arguments of a batch of b into a.
func (s *synthetic) set(a *gpuprof.Args, b int) {
	d := s.takes(b)
	a.SetInt(2, b)
	a.SetInt(3, int(d/time.Microsecond))
	a.SetInt(4, int(d%time.Microsecond))
}
