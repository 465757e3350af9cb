package serving

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
)

// fewImages is the number of images in the batch whose layers a check compares with float64.
const fewImages = 2

// warmedSizes is the batch size up to which a library is warmed up for every size; more sizes would take long.
const warmedSizes = 64

// residual adapts the residual network to the interface network.
type residual struct {
	net              *resnet.Net
	opt              resnet.Options
	tuned            resnet.Tuned
	tuneS            float64
	substituteReason string // why our own convolutions replaced the library's; empty if they did not
	ready            int    // number of groups of launches that belong to the stage prepare
	groups           int
	alone            [resnet.Period][]float32 // the answer to each image, computed in a batch of one
	limit            [resnet.Period]float64   // largest allowed distance of an image's answer from alone
}

func newResidual(ctx context.Context, d device.Device, s device.Stream, k settings) (_ network, err error) {
	most := k.Options
	if k.Autotune {
		most.Impl = resnet.Im2col // of the implementations tried, im2col takes the most memory
	}
	if err := fitsHost(d, most); err != nil {
		return nil, err
	}
	n := &residual{opt: k.Options}
	if k.Autotune {
		began := time.Now()
		if n.tuned, err = resnet.Tune(ctx, d, s, k.Options); err != nil {
			return nil, err
		}
		n.tuneS, n.opt.Ways = time.Since(began).Seconds(), n.tuned.Ways
	}
	if err := n.open(ctx, d, s, k.Warm); err != nil {
		return nil, err
	}
	groups := n.net.Groups()
	n.groups = len(groups)
	for n.ready < n.groups && groups[n.ready].Kind == resnet.Prepare {
		n.ready++
	}
	for i := range resnet.Period { // drawn now, so that no step draws images
		n.net.Image(i)
	}
	return n, nil
}

// open opens the network. If try is set and impl is auto, it runs the library's convolutions once. If they fail, our
// own kernels replace them, and fell keeps the reason. With warm=off try is not set, because nothing may run before the
// first request.
func (n *residual) open(ctx context.Context, d device.Device, s device.Stream, try bool) error {
	net, err := resnet.Open(ctx, d, s, n.opt)
	if err == nil {
		n.net = net
	}
	if n.opt.Impl != resnet.Auto || n.opt.By(d.Info()) != resnet.CuDNN || n.tuned.Tried > 0 || ctx.Err() != nil || errors.Is(err, gpuprof.ErrUsage) {
		return err
	}
	if err == nil && try {
		err = net.Convolve(s, 0, n.opt.MaxBatch)
	}
	if err == nil {
		return nil
	}
	if net != nil {
		if closing := net.Close(); closing != nil {
			return errors.Join(err, closing)
		}
	}
	n.opt.Impl = resnet.Implicit
	own, again := resnet.Open(ctx, d, s, n.opt)
	if again != nil { // the device is lost, or has no memory for our kernels either
		return errors.Join(err, again)
	}
	n.net, n.substituteReason = own, fmt.Sprintf("gpuprof's own kernels compute the convolutions, since cuDNN failed: %v", err)
	return nil
}

func (n *residual) substitution() string { return n.substituteReason }

// fitsHost refuses a network that, with its waiting batches, exceeds the memory of the host device.
func fitsHost(d device.Device, o resnet.Options) error {
	info := d.Info()
	if info.Kind != "host" {
		return nil
	}
	batches := int64(o.Slots) * int64(o.MaxBatch) * (requestBytes(o) + 4*int64(o.Classes))
	if o.Preprocess == resnet.OnHost {
		batches += int64(o.MaxBatch) * requestBytes(o)
	}
	need, have := o.Memory(info)+batches, d.Memory().Available
	if need <= have {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrMemory, "opening serving: max_batch=%d with depth=%d takes %d bytes of host memory, which has %d", o.MaxBatch, o.Slots, need, have).
		WithFix("use a smaller max_batch or depth")
}

func requestBytes(o resnet.Options) int64 {
	if o.Preprocess == resnet.OnDevice {
		return 3 * int64(o.Source) * int64(o.Source)
	}
	return 12 * int64(o.Image) * int64(o.Image)
}

// warmUp computes the answer to each image in a batch of one; isRight compares the answers of all batches with these.
func (n *residual) warmUp(ctx context.Context, d device.Device, s device.Stream) (err error) {
	in, err := d.Alloc(n.requestBytes(), device.Pageable)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Free()) }()
	out, err := d.Alloc(n.answerBytes(), device.Pageable)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Free()) }()
	for i := range n.alone {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("answering image %d alone: %w", i, err)
		}
		n.writeRequest(in.Bytes(), int64(i))
		if err := errors.Join(s.Copy(n.inputBuffer(0), 0, in, 0, n.requestBytes()), n.net.EnqueueAll(s, 0, 1), s.Copy(out, 0, n.outputBuffer(0), 0, n.answerBytes()), s.Sync()); err != nil {
			return fmt.Errorf("answering image %d alone: %w", i, err)
		}
		n.alone[i] = slices.Clone(device.Floats(out)[:n.opt.Classes])
	}
	n.setLimits()
	return n.warmSizes(ctx, s)
}

// warmSizes runs the library's convolutions with every batch size up to warmedSizes, with powers of two above it and
// with max_batch. For each size the library chooses an algorithm and loads kernels, for which the first batch of that
// size would wait otherwise.
func (n *residual) warmSizes(ctx context.Context, s device.Stream) error {
	if !n.net.UsesCuDNN() {
		return nil
	}
	for size := 1; size <= n.opt.MaxBatch; size++ {
		if size > warmedSizes && size&(size-1) != 0 && size != n.opt.MaxBatch {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("warming batches of %d up: %w", size, err)
		}
		if err := n.net.Convolve(s, 0, size); err != nil {
			return fmt.Errorf("warming batches of %d up: %w", size, err)
		}
	}
	return nil
}

// setLimits sets, for each image, the largest allowed distance between an answer and the answer in a batch of one:
// max(tol/16, min(2 tol, nearest/2)). In another batch size a library may sum in another order, which changes the
// rounding of a few operands; tol/16 covers this. nearest is the distance to the closest answer of another image; half
// of it keeps the two distinguishable.
func (n *residual) setLimits() {
	for i, own := range n.alone {
		length := distance(own, make([]float32, len(own)))
		nearest := math.Inf(1)
		for k, other := range n.alone {
			if k != i {
				nearest = min(nearest, distance(own, other))
			}
		}
		tol := n.net.Tolerance() * length
		n.limit[i] = max(tol/16, min(2*tol, nearest/2))
	}
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for k, v := range a {
		sum += (float64(v) - float64(b[k])) * (float64(v) - float64(b[k]))
	}
	return math.Sqrt(sum)
}

func (n *residual) requestBytes() int                   { return n.net.InputBytes() }
func (n *residual) answerBytes() int                    { return 4 * n.opt.Classes }
func (n *residual) inputBuffer(slot int) device.Buffer  { return n.net.Input(slot) }
func (n *residual) outputBuffer(slot int) device.Buffer { return n.net.Logits(slot) }
func (n *residual) hostPrepares() bool                  { return n.opt.Preprocess == resnet.OnHost }
func (n *residual) writeRequest(dst []byte, id int64)   { n.net.Fill(dst, int(id%resnet.Period)) }
func (n *residual) close() error                        { return n.net.Close() }

func (n *residual) loadTime() time.Duration { return n.net.Loading() }

func (n *residual) prepareBatch(on device.Stream, slot, batch, stage int, p workloads.Probe) error {
	return n.enqueue(on, slot, batch, stage, 0, n.ready, p)
}

func (n *residual) run(on device.Stream, slot, batch, stage int, p workloads.Probe) error {
	return n.enqueue(on, slot, batch, stage, n.ready, n.groups, p)
}

func (n *residual) enqueue(on device.Stream, slot, batch, stage, from, to int, p workloads.Probe) error {
	for g := from; g < to; g++ {
		sp := p.Begin(stage, on)
		err := n.net.Enqueue(on, slot, g, batch)
		p.End(sp)
		if err != nil {
			return err
		}
	}
	return nil
}

// isRight implements network. An answer with NaN is wrong.
func (n *residual) isRight(answer []byte, id int64) bool {
	want, apart := n.alone[id%resnet.Period], 0.0
	for k, v := range want {
		e := float64(math.Float32frombits(binary.NativeEndian.Uint32(answer[4*k:]))) - float64(v)
		apart += e * e
	}
	return math.Sqrt(apart) <= n.limit[id%resnet.Period]
}

func (n *residual) servedModel() kserve.Model {
	o := n.opt
	return kserve.Model{
		Name: networkResidual,
		In:   kserve.Tensor{Name: "image", Datatype: kserve.Uint8, Shape: []int{1, o.Source, o.Source, 3}},
		Out:  kserve.Tensor{Name: "logits", Datatype: kserve.Float32, Shape: []int{1, o.Classes}},
	}
}

func (n *residual) decodeRequest(dst, request []byte) { n.net.FillImage(dst, request) }

// isPlausible accepts every finite answer, because the expected answer to a caller's image is unknown.
func (n *residual) isPlausible(_, answer []byte) bool {
	for k := range n.opt.Classes {
		if v := float64(math.Float32frombits(binary.NativeEndian.Uint32(answer[4*k:]))); !gpuprof.IsFinite(v) {
			return false
		}
	}
	return true
}

func (n *residual) recompute(request, answer []byte) (e, tolerance float64) {
	return n.logitError(answer, n.net.ReferenceOf(request)), n.net.Tolerance()
}

func (n *residual) describeStages(all []gpuprof.Stage, batch int) {
	for g := range n.groups {
		st := &all[stForward]
		if g < n.ready {
			st = &all[stPrepare]
			st.Minimum = st.Minimum.Add(n.net.Minimum(g, batch))
		}
		st.MaxSpans++
		st.Parts = append(st.Parts, n.net.Parts(g, batch)...)
	}
	all[stForward].Minimum = n.floor(batch)
}

func (n *residual) floor(batch int) gpuprof.Cost {
	c := n.opt.Floor(batch)
	return c.In(n.opt.Precision, c.Flops)
}

func (n *residual) facts() map[string]any {
	out := n.net.Describe()
	if n.tuned.Tried > 0 {
		var ways []string
		for _, name := range n.opt.Names() {
			if w := n.tuned.Ways[name]; w != "" {
				ways = append(ways, name+"="+w)
			}
		}
		out["autotune_s"], out["autotune_tried"], out["autotune_chosen"] = n.tuneS, n.tuned.Tried, ways
	}
	return out
}

// check compares one answer with float64, and the layers of each kind with float64 results from the layer's own inputs.
func (n *residual) check(ctx context.Context, s device.Stream, slot int, ids []int64, answers []byte) ([]gpuprof.Check, error) {
	few := []int{int(ids[len(ids)-1] % resnet.Period)} // the last image of the batch
	for _, id := range ids[:min(len(ids)-1, fewImages-1)] {
		few = append(few, int(id%resnet.Period))
	}
	forward, err := n.checkLogits(ctx, few[0], answers[(len(ids)-1)*n.answerBytes():])
	if err != nil {
		return nil, err
	}
	whole := loop.WholeCheck(float64(forward.RelativeError), forward.Tolerance, 1, len(ids), "answers")
	parts, err := n.net.Check(ctx, s, slot, few)
	for i := range parts {
		if parts[i].Stage == "prepare" && n.hostPrepares() {
			parts[i].Stage = stPreprocess.name()
		}
	}
	return append(append([]gpuprof.Check{forward}, parts...), whole), err
}

func (n *residual) checkLogits(ctx context.Context, image int, answer []byte) (gpuprof.Check, error) {
	want, err := n.net.Reference(ctx, image)
	if err != nil {
		return gpuprof.Check{}, err
	}
	return loop.CheckOf(stForward.name(), n.logitError(answer, want), n.net.Tolerance(), 1, 1), nil
}

// logitError returns Logits.Apart of an answer that is given as bytes.
func (n *residual) logitError(answer []byte, want resnet.Logits) float64 {
	got := make([]float32, len(want.Values))
	for k := range got {
		got[k] = math.Float32frombits(binary.NativeEndian.Uint32(answer[4*k:]))
	}
	return want.Apart(got)
}
