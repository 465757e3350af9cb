package gruflow

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The vendor's GRU in float32 for training: the kernels convert weights and gradients, run forward, and run backward,
// as in device.GRUTrainer. They have no PTX, and the host device does not offer the library.
var (
	trainWeightsKernel   = device.Typed[trainWeightsArgs](device.Kernel{Name: "gru_cudnn_weights", Lib: "gru_weights_fp32"})
	trainForwardKernel   = device.Typed[trainForwardArgs](device.Kernel{Name: "gru_cudnn_forward", Lib: "gru_forward_fp32"})
	trainBackKernel      = device.Typed[trainBackArgs](device.Kernel{Name: "gru_cudnn_bwd", Lib: "gru_backward_fp32"})
	trainGradientsKernel = device.Typed[trainGradientsArgs](device.Kernel{Name: "gru_cudnn_grads", Lib: "gru_gradients_fp32"})
)

// Arguments of these kernels: buffers with the names of trainer's fields, then sizes.
type (
	trainWeightsArgs struct {
		wi, wh, bi, bh, space      device.Ref
		T, B, I, H, L, layer, back device.Num
	}
	trainForwardArgs struct {
		x, h0, w, y, hn, kept device.Ref
		T, B, I, H, L         device.Num
	}
	trainBackArgs struct {
		y, dy, h0, dhn, w, kept, dx, dh0 device.Ref
		T, B, I, H, L                    device.Num
	}
	trainGradientsArgs struct {
		x, h0, y, kept, dw device.Ref
		T, B, I, H, L      device.Num
	}
)

// trainer is a GRU whose forward and backward passes cuDNN computes: all layers and time steps in one call. Parameters
// and gradients belong to u, which records no states or gates itself.
type trainer struct {
	u                   *unroll
	h0, hn, dhn, dh0, y device.Buffer // [L,B,H], y [T,B,H]
	w, dw, kept         device.Buffer // weights, gradients and recorded values in cuDNN's format
	words               int64         // size of w
}

// newTrainer allocates all buffers except the input, the output's cotangent and the gradients.
func newTrainer(mem *op.Arena, u *unroll) (*trainer, error) {
	s := u.net.s
	maker, ok := mem.Dev.(device.GRUTrainer)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "training a GRU with impl=cudnn on device %s: it does not offer the library's", mem.Dev.Info().Name).WithFix("use impl=fused")
	}
	weights, kept, err := maker.GRUSpace(device.GRUSpec{Input: s.I, Hidden: s.H, Layers: s.L, Batch: s.B, Steps: s.T, Precision: fp32.String()})
	if err != nil {
		return nil, fmt.Errorf("training a GRU with impl=cudnn: %w", err)
	}
	t := &trainer{u: u, words: weights / 4}
	state := int64(s.L) * int64(s.B) * int64(s.H)
	list := []request{
		{"hidden states", state, &t.h0}, {"hidden states", state, &t.hn}, {"the state's cotangent", state, &t.dhn}, {"the state's cotangent", state, &t.dh0},
		{"GRU output", int64(s.T) * int64(s.B) * int64(s.H), &t.y}, {"cuDNN's weights", t.words, &t.w}, {"cuDNN's gradients", t.words, &t.dw}, {"what cuDNN keeps", (kept + 3) / 4, &t.kept},
	}
	for l := range s.L {
		list = append(list, u.parameterRequests(l)...)
	}
	allocateAll(mem, list)
	return t, mem.Err
}

// copyWeights converts layer l's parameters to cuDNN's format in space. With back = 1 it converts the gradients in
// space to the format of p instead.
func (t *trainer) copyWeights(l int, p layerBuffers, space device.Buffer, back int) op.Call {
	s := t.u.net.s
	n := int64(s.gates()) * int64(s.inputWidth(l)+s.H+2)
	return t.u.net.Bind(&trainWeightsKernel, s.B, gpuprof.Cost{BytesRead: 4 * n, BytesWritten: 4 * n}, trainWeightsArgs{
		wi: p.wi, wh: p.wh, bi: p.bi, bh: p.bh, space: space, T: s.T, B: s.B, I: s.I, H: s.H, L: s.L, layer: l, back: back,
	})
}

// stepGroups returns the groups of launches of a step: convert the weights, forward, backward, gradients.
func (t *trainer) stepGroups(x, dout, dx device.Buffer) []group {
	u, s := t.u, t.u.net.s
	weights, forward, back, grads := group{stage: stWeights}, group{stage: stGRU}, group{stage: stGRUBack}, group{stage: stGrads}
	for l := range s.L {
		weights.once = append(weights.once, t.copyWeights(l, u.layers[l].p, t.w, 0))
		w := wayBack{dx: dx}
		forward.minimum = forward.minimum.Add(u.net.layerMinimum(l))
		back.minimum, grads.minimum = back.minimum.Add(u.chainMinimum(l, w)), grads.minimum.Add(u.gradsMinimum(l))
	}
	forward.once = []op.Call{u.net.Bind(&trainForwardKernel, s.B, forward.minimum, trainForwardArgs{
		x: x, h0: t.h0, w: t.w, y: t.y, hn: t.hn, kept: t.kept, T: s.T, B: s.B, I: s.I, H: s.H, L: s.L,
	})}
	back.once = []op.Call{u.net.Bind(&trainBackKernel, s.B, back.minimum, trainBackArgs{
		y: t.y, dy: dout, h0: t.h0, dhn: t.dhn, w: t.w, kept: t.kept, dx: dx, dh0: t.dh0, T: s.T, B: s.B, I: s.I, H: s.H, L: s.L,
	})}
	// The library only adds to gradients, so they start at zero.
	grads.once = []op.Call{u.net.Bind(&fillKernel, int(t.words), fillCost(int(t.words)), gruFillArgs{
		out: t.dw, n: int(t.words), value: float32(0),
	}),
		u.net.Bind(&trainGradientsKernel, s.B, grads.minimum, trainGradientsArgs{
			x: x, h0: t.h0, y: t.y, kept: t.kept, dw: t.dw, T: s.T, B: s.B, I: s.I, H: s.H, L: s.L,
		})}
	for l := range s.L {
		grads.once = append(grads.once, t.copyWeights(l, u.layers[l].g, t.dw, 1))
	}
	return []group{weights, forward, back, grads}
}
