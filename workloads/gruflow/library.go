package gruflow

import (
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// library is a vendor's GRU (cuDNN): all layers and time steps in one call. It reads the state from one buffer and
// writes it to another; bindLayers gets the input x [T,B,I]. With bf16 and fp16 all its buffers have 16 bits, and
// kernels convert the input and the output.
type library struct {
	weights device.Buffer // of the size that GRUMaker requires
	from    device.Buffer // state before the call [L,B,H]
	y       device.Buffer // [T,B,H]; 16 bits with bf16 and fp16
	// 16-bit copies, for bf16 and fp16.
	x16, from16, to16 device.Buffer
	maker             device.GRUMaker
	name              string
}

// newLibrary allocates the library's buffers except x and h. name is the precision of the stored values.
func newLibrary(a *op.Arena, stream device.Stream, maker device.GRUMaker, s shape, name string, p params, from device.Buffer) *library {
	prec := parsePrecision(name)
	var flat []float32
	for _, l := range p.layers {
		for _, part := range [][]float32{l.wi, l.wh, l.bi, l.bh} {
			flat = append(flat, part...)
		}
	}
	if prec.isNarrow() {
		flat = prec.roundedCopy(flat)
	}
	rows, state := int64(s.T)*int64(s.B), int64(s.L)*int64(s.B)*int64(s.H)
	on := func(what string, n int64) device.Buffer { return a.Words(what, prec.words(n), device.OnDevice) }
	lib := &library{maker: maker, name: name, from: from, weights: a.Upload(stream, "GRU weights", flat), y: on("GRU output", rows*int64(s.H))}
	if prec.isNarrow() {
		lib.x16, lib.from16, lib.to16 = on("16-bit input", rows*int64(s.I)), on("16-bit state", state), on("16-bit state", state)
	}
	return lib
}

// sibling returns the library for the opposite direction between the two state buffers: its calls read the state from
// the given buffer. It shares all other buffers.
func (l *library) sibling(from device.Buffer) *library {
	c := *l
	c.from = from
	return &c
}

func (g *gru) libraryGroup(x device.Buffer) group {
	s, lib := g.s, g.lib
	gr := group{stage: stGRU}
	for l := range s.L {
		gr.minimum = gr.minimum.Add(g.layerMinimum(l))
	}
	from, to := lib.from, g.h
	state := s.L * s.B * s.H
	if g.prec.isNarrow() {
		gr.once = append(gr.once, g.round(source{arg: op.From(x, 0)}, lib.x16, s.T*s.B*s.I), g.round(source{arg: op.From(from, 0)}, lib.from16, state))
		gr.after = append(gr.after, g.Bind(&widenKernel, state, widenCost(state, g.prec), gruWidenArgs{
			in: lib.to16, out: to, n: state, precision: int(g.prec), inAt: 0,
		}))
		x, from, to = lib.x16, lib.from16, lib.to16
	}
	if g.Err != nil {
		return gr
	}
	spec := device.GRUSpec{Input: s.I, Hidden: s.H, Layers: s.L, Batch: s.B, Steps: s.T, Precision: lib.name}
	var err error
	if gr.lib, err = lib.maker.BindGRU(spec, x, from, lib.weights, lib.y, to); err != nil {
		g.Err = fmt.Errorf("setting impl=%s: %w", implCuDNN, err)
	}
	return gr
}
