package gruflow

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The vendor's GRU, trained in float32: weights, forward, backward and gradients as
// device.GRUTrainer has them. They need no PTX, and no host device names the library.
var (
	trainWeightsKernel   = device.Kernel{Name: "gru_cudnn_weights", Sig: "bbbbbiiiiiii", Lib: "gru_weights_fp32"}
	trainForwardKernel   = device.Kernel{Name: "gru_cudnn_forward", Sig: "bbbbbbiiiii", Lib: "gru_forward_fp32"}
	trainBackKernel      = device.Kernel{Name: "gru_cudnn_bwd", Sig: "bbbbbbbbiiiii", Lib: "gru_backward_fp32"}
	trainGradientsKernel = device.Kernel{Name: "gru_cudnn_grads", Sig: "bbbbbiiiii", Lib: "gru_gradients_fp32"}
)

// trainer is a GRU with its backward pass by cuDNN: all layers and time steps are one call. The parameters and their
// gradients belong to an unrolled GRU, which itself records nothing.
type trainer struct {
	u                   *unroll
	h0, hn, dhn, dh0, y device.Buffer // [L,B,H], y [T,B,H]
	w, dw, kept         device.Buffer // in cuDNN's arrangement
	words               int64         // of w
}

// newTrainer allocates its buffers except the input, the output's cotangent and gradients.
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

// launch binds one of the routines, with the sizes after the buffers and then the other integers.
func (t *trainer) launch(k *device.Kernel, cost gpuprof.Cost, bufs []any, more ...any) launch {
	s := t.u.net.s
	args := append(append(bufs, s.T, s.B, s.I, s.H, s.L), more...)
	return t.u.net.launch(k, s.B, cost, args...)
}

// copyWeights copies a layer's parameters into cuDNN's arrangement, or gradients from it.
func (t *trainer) copyWeights(l int, p layerBuffers, space device.Buffer, back int) launch {
	n := int64(t.u.net.s.gates()) * int64(t.u.net.s.inputWidth(l)+t.u.net.s.H+2)
	return t.launch(&trainWeightsKernel, gpuprof.Cost{BytesRead: 4 * n, BytesWritten: 4 * n}, []any{p.wi, p.wh, p.bi, p.bh, space}, l, back)
}

// stepGroups returns the groups of a step: the weights in cuDNN's arrangement, forward, backward and the gradients.
func (t *trainer) stepGroups(x, dout, dx device.Buffer) []group {
	u, s := t.u, t.u.net.s
	weights, forward, back, grads := group{stage: stWeights}, group{stage: stGRU}, group{stage: stGRUBack}, group{stage: stGrads}
	for l := range s.L {
		weights.once = append(weights.once, t.copyWeights(l, u.layers[l].p, t.w, 0))
		w := wayBack{dx: dx}
		forward.minimum = forward.minimum.Add(u.net.layerMinimum(l))
		back.minimum, grads.minimum = back.minimum.Add(u.chainMinimum(l, w)), grads.minimum.Add(u.gradsMinimum(l))
	}
	forward.once = []launch{t.launch(&trainForwardKernel, forward.minimum, []any{x, t.h0, t.w, t.y, t.hn, t.kept})}
	back.once = []launch{t.launch(&trainBackKernel, back.minimum, []any{t.y, dout, t.h0, t.dhn, t.w, t.kept, dx, t.dh0})}
	// The library only adds to gradients, so they are zeroed first.
	grads.once = []launch{u.net.launch(&fillKernel, int(t.words), fillCost(int(t.words)), t.dw, int(t.words), float32(0)),
		t.launch(&trainGradientsKernel, grads.minimum, []any{x, t.h0, t.y, t.kept, t.dw})}
	for l := range s.L {
		grads.once = append(grads.once, t.copyWeights(l, u.layers[l].g, t.dw, 1))
	}
	return []group{weights, forward, back, grads}
}
