package cuda

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
)

func (s convShape) String() string {
	order := "nchw"
	if s.last {
		order = "nhwc"
	}
	return fmt.Sprintf("convolution in %s, %s, of %d images of %d channels and %dx%d pixels to %d channels by %dx%d with stride %d",
		s.kind, order, s.n, s.in, s.size, s.size, s.out, s.k, s.k, s.stride)
}

// newPlan makes the descriptors and queries cuDNN's algorithms.
func (n *dnn) newPlan(s convShape) (*convPlan, error) {
	p := new(convPlan)
	if err := n.makeDescriptors(p, s); err != nil {
		return nil, errors.Join(err, n.destroyPlan(p))
	}
	if err := n.chooseAlgorithms(p, s); err != nil {
		return nil, errors.Join(err, n.destroyPlan(p))
	}
	return p, nil
}

func (n *dnn) makeDescriptors(p *convPlan, s convShape) error {
	for _, v := range []int{s.n, s.in, s.out, s.k, s.stride, s.size, s.outSiz} {
		if v < 1 || v > math.MaxInt32 {
			return gpuprof.Errorf(gpuprof.ErrDevice, "describing it to cuDNN: each number has to be 1 or more").WithFix("report it as a defect of the workload")
		}
	}
	c, kind := n.conv, dnnTypes[s.kind]
	format, data := int32(dnnNCHW), int32(kind.data)
	if s.last {
		format = dnnNHWC
	}
	pad, stride, k, in, out := int32(s.k/2), int32(s.stride), int32(s.k), int32(s.in), int32(s.out)
	for _, step := range []struct {
		call string
		do   func() int32
	}{
		{"cudnnCreateTensorDescriptor of x", func() int32 { return n.createTensor(&p.x) }},
		{"cudnnCreateTensorDescriptor of y", func() int32 { return n.createTensor(&p.y) }},
		{"cudnnCreateFilterDescriptor", func() int32 { return c.createFilter(&p.w) }},
		{"cudnnCreateConvolutionDescriptor", func() int32 { return c.createConv(&p.conv) }},
		{"cudnnSetTensor4dDescriptor of x", func() int32 { return c.setTensor(p.x, format, data, int32(s.n), in, int32(s.size), int32(s.size)) }},
		{"cudnnSetTensor4dDescriptor of y", func() int32 { return c.setTensor(p.y, format, data, int32(s.n), out, int32(s.outSiz), int32(s.outSiz)) }},
		{"cudnnSetFilter4dDescriptor", func() int32 { return c.setFilter(p.w, data, format, out, in, k, k) }},
		{"cudnnSetConvolution2dDescriptor", func() int32 { return c.setConv(p.conv, pad, pad, stride, stride, 1, 1, dnnCrossCorrelation, dnnFloat) }},
		{"cudnnSetConvolutionMathType", func() int32 { return c.setMath(p.conv, int32(kind.math)) }},
	} {
		if err := n.check(step.call, step.do()); err != nil {
			return err
		}
	}
	return nil
}

// chooseAlgorithms lists the usable algorithms in the order of cuDNN's heuristics. For fp16 and bf16 each algorithm
// gets the math type that cuDNN returned for it. For float32 the precision that the user chose determines the math
// type.
func (n *dnn) chooseAlgorithms(p *convPlan, s convShape) error {
	c := n.conv
	var got int32
	var perf [len(convAlgorithms)]convPerf
	if err := n.check("cudnnGetConvolutionForwardAlgorithm_v7", c.algorithms(n.h, p.x, p.w, p.conv, p.y, int32(len(perf)), &got, &perf[0])); err != nil {
		return err
	}
	var refusals []string
	for _, f := range perf[:max(0, min(int(got), len(perf)))] {
		choice := convChoice{algo: f.algo, math: int32(dnnTypes[s.kind].math)}
		if dnnTypes[s.kind].bytes == 2 {
			choice.math = f.math
		}
		call, status := "cudnnGetConvolutionForwardAlgorithm_v7", f.status
		if status == 0 {
			call, status = "cudnnSetConvolutionMathType", c.setMath(p.conv, choice.math)
		}
		if status == 0 {
			call, status = "cudnnGetConvolutionForwardWorkspaceSize", c.workspace(n.h, p.x, p.w, p.conv, p.y, f.algo, &choice.memory)
		}
		switch {
		case status != 0:
			refusals = append(refusals, n.statusText(convAlgorithm(f.algo)+": "+call, status))
		case choice.memory > convWorkspace:
			refusals = append(refusals, fmt.Sprintf("%s: it needs %d bytes of memory, and %d are allowed", convAlgorithm(f.algo), choice.memory, convWorkspace))
		default:
			p.usable = append(p.usable, choice)
		}
	}
	if n.dev.lost != nil {
		return n.dev.reportLost()
	}
	if len(p.usable) == 0 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "cuDNN %s has no algorithm for it among %d: %s", dnnVersion(n.version()), got, strings.Join(refusals, "; ")).WithFix("set another precision or layout, or %s", ownKernels)
	}
	return n.setArithmetic(p, p.usable[0])
}

func (n *dnn) setArithmetic(p *convPlan, c convChoice) error {
	return n.check("cudnnSetConvolutionMathType", n.conv.setMath(p.conv, c.math))
}

func convAlgorithm(algo int32) string {
	if algo >= 0 && int(algo) < len(convAlgorithms) {
		return convAlgorithms[algo]
	}
	return fmt.Sprintf("algorithm %d", algo)
}
