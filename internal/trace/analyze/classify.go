package analyze

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// opMeaning classifies the work under an operator or range of one name.
type opMeaning struct {
	class uint8 // index into classList, NoClass unknown
	// whole: operators inside belong to it; a matrix product of an LSTM is part of the LSTM.
	whole bool
}

// moduleKind classifies a module or range by its name.
type moduleKind uint8

const (
	modulePlain         moduleKind = iota
	moduleNeutral                  // a wrapper that compilers make: the module around it decides
	moduleTensorProduct            // an equivariant tensor product
	// moduleConvolution is a name that e3nn and others use: a tensor product, if the trace has tensor products,
	// except for its elementwise kernels.
	moduleConvolution
)

// NoClass marks an unknown class.
const NoClass = 255

var classList = model.Classes()

// Indices into Classes.
const (
	GEMMClass uint8 = iota
	cConv
	cTensorProduct
	cScatter
	cRNN
	cAttention
	cNorm
	ElementwiseClass
	cReduction
	CopyClass
	cCommunication
	OptimizerClass
	cOther
	cAttentionPrefill
	cAttentionDecode
	cKVCache
	cRotary
	cQuantize
	cMoERouting
	cMoEGEMM
	cMoEAllToAll
	cSampling
)

// maxClasses is the length of sums by class: a power of two, so that an index below it needs no check.
const maxClasses = 32

// communicates reports whether kernels of a class move data between ranks.
func isCommunication(class uint8) bool { return class == cCommunication || class == cMoEAllToAll }

// classifyKernels assigns every GPU event its class: memory operations are copies, kernels take the class of the
// operators around their launch first and of their own name second. The context depends only on the position of the
// launch, so consecutive kernels of one operator share one look-up.
func (x *Index) classifyKernels() {
	t := x.T
	x.class = make([]uint8, len(t.GPU))
	// Consecutive kernels nearly always have the same operator.
	lastOp, lastLaunch := int32(-2), int32(-2)
	var around launchContext
	for i := range t.GPU {
		g := &t.GPU[i]
		if g.Kind != model.Kernel {
			x.class[i] = CopyClass
			continue
		}
		if op := x.gpuOp[i]; op != lastOp || op < 0 && g.Launch != lastLaunch {
			around = x.launchContextOf(op, g.Launch)
			lastOp, lastLaunch = op, g.Launch
		}
		x.class[i] = around.classOf(&x.Info[g.Name])
	}
}

// launchContext combines the operators, ranges and modules around a launch.
type launchContext struct {
	inner     opMeaning // the innermost operator of a known class
	outer     uint8     // the innermost operator that includes its children, else NoClass
	optimizer bool
	experts   bool       // a range of the experts of a mixture
	product   moduleKind // moduleTensorProduct, moduleConvolution: in the module of one
}

// launchContextOf walks up from an operator (-1 none) or, without one, from a launch.
func (x *Index) launchContextOf(op, launch int32) launchContext {
	s := launchContext{inner: opMeaning{class: NoClass}, outer: NoClass}
	for h := op; h >= 0; h = x.OpAbove(h) {
		in := &x.Info[x.T.Host[h].Name]
		s.optimizer = s.optimizer || in.Flags&NameOptimizer != 0
		s.experts = s.experts || in.Flags&nameExperts != 0
		if in.op.class == NoClass {
			continue
		}
		if s.inner.class == NoClass {
			s.inner = in.op
		}
		if in.op.whole && s.outer == NoClass {
			s.outer = in.op.class
		}
	}
	at := op
	if at < 0 {
		at = launch
	}
	if at >= 0 {
		s.product = x.moduleKindAround(at)
		s.optimizer = s.optimizer || x.InOptimizer(at)
	}
	return s
}

// moduleKindAround returns the kind of the innermost module around an event, without the wrappers of compilers.
func (x *Index) moduleKindAround(host int32) moduleKind {
	for m := x.moduleOf(host); m >= 0; {
		switch w := x.Info[x.T.Host[m].Name].model; {
		case w == moduleConvolution && !x.products:
			return modulePlain
		case w != moduleNeutral:
			return w
		}
		p := x.parent[m]
		if p < 0 {
			break
		}
		m = x.mod[p]
	}
	return modulePlain
}

// InOptimizer reports whether an event runs inside a range Optimizer.step#….
func (x *Index) InOptimizer(host int32) bool {
	for h := host; h >= 0; h = x.parent[h] {
		if x.Info[x.T.Host[h].Name].Flags&NameOptimizer != 0 {
			return true
		}
	}
	return false
}

// classOf returns the class of a kernel from its name and the context of its launch.
func (s *launchContext) classOf(in *NameInfo) uint8 {
	kernel := in.Kernel
	switch {
	case isCommunication(kernel):
		return kernel
	case kernel == GEMMClass && s.experts:
		return cMoEGEMM
	case in.ofLLM:
		return kernel
	case s.optimizer:
		return OptimizerClass
	case kernel == cTensorProduct:
		return cTensorProduct
	}
	c := s.inner.class
	switch {
	case c == NoClass:
		c = kernel
	case s.outer == cConv && (kernel == ElementwiseClass || kernel == cReduction || c == CopyClass):
		// Its bias, the sum of the bias's gradient, and casts: no convolution.
		c = kernel
		if s.inner.class == CopyClass {
			c = CopyClass
		}
	case s.outer != NoClass && c != cCommunication:
		c = s.outer
	case c == cOther && kernel != NoClass:
		c = kernel
	}
	if s.isPartOfProduct(c) {
		return cTensorProduct
	}
	if c == NoClass {
		return cOther
	}
	return c
}

// isPartOfProduct reports whether work of a class is part of the tensor product around it.
func (s *launchContext) isPartOfProduct(c uint8) bool {
	switch c {
	case ElementwiseClass, cReduction, CopyClass:
		return s.product == moduleTensorProduct
	case GEMMClass, cOther, NoClass:
		return s.product == moduleTensorProduct || s.product == moduleConvolution
	}
	return false
}
