package serving

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

//go:embed synthetic.ptx.zst
var syntheticPTX string

// images is the number of requests after which their data repeats.
const images = 64

// syntheticKernel is a network that takes a given time: it waits, then answers every request x of the batch with 1 -
// 2 x. A GPU spins; the host sleeps, which leaves its cores to the sender. Parameters: out, in, requests, then the
// time as whole microseconds and the remaining nanoseconds.
var syntheticKernel = device.Typed[servingSyntheticArgs](device.Kernel{
	Name: "synthetic", Serial: true,
	Host: func(args *device.Args, _, _ int) {
		a := device.View[servingSyntheticView](args)
		traffic.Sleep(time.Duration(a.us.Int())*time.Microsecond + time.Duration(a.ns.Int()))
		out, in := a.out.Floats(), a.in.Floats()
		for i := range a.batch.Int() {
			out[i] = 1 - 2*in[i]
		}
	},
	PTX: syntheticPTX, Entry: "serving_synthetic", Threads: 32, PerBlock: 32,
})

// synthetic is the network that consists of syntheticKernel. A batch of b requests takes tau + alpha b.
type synthetic struct {
	tau, alpha float64
	inputs     [images]float32
	fn         device.Func
	loaded     time.Duration
	mem        op.Arena
	slots      []syntheticSlot
}

type syntheticSlot struct {
	in, out device.Buffer
	args    device.Args
}

// wordBytes is the size of a request and of an answer: one float32.
const wordBytes = 4

func newSynthetic(d device.Device, k settings) (network, error) {
	s := &synthetic{
		tau: k.Tau, alpha: k.Alpha, mem: op.Arena{Dev: d},
		slots: make([]syntheticSlot, k.Slots),
	}
	rng := rand.New(rand.NewPCG(k.Seed, 0x73657276696e67))
	for i := range s.inputs {
		s.inputs[i] = float32(rng.IntN(1<<20)+1) / (1 << 20)
	}
	var err error
	began := time.Now()
	if s.fn, err = d.Load(&syntheticKernel); err != nil {
		return nil, err
	}
	s.loaded = time.Since(began)
	for i := range s.slots {
		l, n := &s.slots[i], wordBytes*k.MaxBatch
		l.in, l.out = s.mem.Bytes("the requests on the device", n, device.OnDevice), s.mem.Bytes("the answers on the device", n, device.OnDevice)
		if s.mem.Err != nil {
			return nil, errors.Join(s.mem.Err, s.mem.Free())
		}
		a := device.View[servingSyntheticView](&l.args)
		a.out.Set(l.out, 0)
		a.in.Set(l.in, 0)
	}
	return s, nil
}

func (s *synthetic) requestBytes() int                   { return wordBytes }
func (s *synthetic) answerBytes() int                    { return wordBytes }
func (s *synthetic) inputBuffer(slot int) device.Buffer  { return s.slots[slot].in }
func (s *synthetic) outputBuffer(slot int) device.Buffer { return s.slots[slot].out }
func (s *synthetic) hostPrepares() bool                  { return false }
func (s *synthetic) facts() map[string]any               { return nil }
func (s *synthetic) close() error                        { return s.mem.Free() }
func (s *synthetic) loadTime() time.Duration             { return s.loaded }

func (s *synthetic) prepareBatch(device.Stream, int, int, int, workloads.Probe) error { return nil }

// warmUp runs a batch of one; the expected answers need no preparation.
func (s *synthetic) warmUp(_ context.Context, _ device.Device, on device.Stream) error {
	return errors.Join(s.run(on, 0, 1, 0, loop.Silent{}), on.Sync())
}

func (s *synthetic) batchTime(b int) time.Duration {
	return time.Duration(math.Round(1e9 * (s.tau + s.alpha*float64(b))))
}

func (s *synthetic) answerOf(id int64) float32 { return 1 - 2*s.inputs[id%images] }

func (s *synthetic) writeRequest(dst []byte, id int64) {
	binary.NativeEndian.PutUint32(dst, math.Float32bits(s.inputs[id%images]))
}

func (s *synthetic) run(on device.Stream, slot, b, stage int, p workloads.Probe) error {
	d, a := s.batchTime(b), &s.slots[slot].args
	v := device.View[servingSyntheticView](a)
	v.batch.Set(b)
	v.us.Set(int(d / time.Microsecond))
	v.ns.Set(int(d % time.Microsecond))
	sp := p.Begin(stage, on)
	err := on.Launch(s.fn, 1, a)
	p.End(sp)
	return err
}

// isRight compares exactly: the inputs are multiples of 2^-20 up to 1, so 1 - 2 x does not round.
func (s *synthetic) isRight(answer []byte, id int64) bool {
	return math.Float32frombits(binary.NativeEndian.Uint32(answer)) == s.answerOf(id)
}

func (s *synthetic) servedModel() kserve.Model {
	return kserve.Model{
		Name: networkSynthetic,
		In:   kserve.Tensor{Name: "x", Datatype: kserve.Float32, Shape: []int{1, 1}}, Out: kserve.Tensor{Name: "y", Datatype: kserve.Float32, Shape: []int{1, 1}},
	}
}

func (s *synthetic) decodeRequest(dst, request []byte) { copy(dst, request) }

// isPlausible compares exactly: the request determines the answer.
func (s *synthetic) isPlausible(request, answer []byte) bool {
	return math.Float32frombits(binary.NativeEndian.Uint32(answer)) == 1-2*math.Float32frombits(binary.NativeEndian.Uint32(request))
}

// recompute implements network. The tolerance is the rounding error of one float32 operation.
func (s *synthetic) recompute(request, answer []byte) (e, tolerance float64) {
	want := 1 - 2*float64(math.Float32frombits(binary.NativeEndian.Uint32(request)))
	got := float64(math.Float32frombits(binary.NativeEndian.Uint32(answer)))
	return math.Abs(got-want) / max(math.Abs(want), 1e-30), 6e-8
}

func (s *synthetic) describeStages(all []gpuprof.Stage, batch int) {
	n := int64(batch) * wordBytes
	all[stForward].MaxSpans = 1
	all[stForward].Parts = []gpuprof.Part{{Kernel: syntheticKernel.Name, Cost: gpuprof.Cost{BytesRead: n, BytesWritten: n, Launches: 1}}}
}

func (s *synthetic) check(_ context.Context, _ device.Stream, _ int, ids []int64, answers []byte) ([]gpuprof.Check, error) {
	wrong := 0
	for k, id := range ids {
		if !s.isRight(answers[k*wordBytes:], id) {
			wrong++
		}
	}
	rate := float64(wrong) / float64(len(ids))
	return []gpuprof.Check{loop.CheckOf(stForward.name(), rate, 0, len(ids), len(ids)), loop.WholeCheck(rate, 0, len(ids), len(ids), "answers")}, nil
}
