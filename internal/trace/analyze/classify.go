package analyze

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type opMeaning struct {
	class uint8 // index into classList, NoClass unknown
	// whole: nested operators belong to this class too; a matrix product inside an LSTM is part of the LSTM.
	whole bool
}

type moduleKind uint8

const (
	modulePlain         moduleKind = iota
	moduleNeutral                  // a wrapper of a compiler: the enclosing module decides
	moduleTensorProduct            // an equivariant tensor product
	// moduleConvolution is a name that e3nn and other packages use. In a trace with tensor products it is a tensor
	// product, except for its elementwise kernels.
	moduleConvolution
)

// NoClass marks an unknown class.
const NoClass = 255

var classList = model.Classes()

// Indices into classList.
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

// maxClasses is the length of arrays indexed by class: a power of two, so that a masked index needs no bounds check.
const maxClasses = 32

func isCommunication(class uint8) bool { return class == cCommunication || class == cMoEAllToAll }

// classifyKernels assigns a class to every GPU event. Memory operations are copies. A kernel gets its class from the
// operators around its launch, else from its name. Consecutive kernels of one operator share one look-up, because their
// context is the same.
func (x *Index) classifyKernels() {
	t := x.T
	x.class = make([]uint8, len(t.GPU))
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

type launchContext struct {
	inner     opMeaning // the innermost operator with a known class
	outer     uint8     // class of the innermost operator whose class includes nested operators, else NoClass
	optimizer bool
	experts   bool       // inside a range that runs the experts of a mixture-of-experts layer
	product   moduleKind // moduleTensorProduct or moduleConvolution, if inside such a module
}

// launchContextOf collects the context of a launch from op, the innermost operator around the launch, and all operators
// that enclose op. If op is -1, only the modules and ranges around the launch count.
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

// moduleKindAround returns the kind of the innermost module around an event, ignoring wrappers of compilers.
func (x *Index) moduleKindAround(host int32) moduleKind {
	for m := x.moduleOf(host); m >= 0; {
		switch w := x.Info[x.T.Host[m].Name].model; {
		case w == moduleConvolution && !x.hasTensorProducts:
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

// classOf returns the class of a kernel with the name in, launched in context s. Some kernel names decide the class.
// Otherwise the operators of s decide, or the kernel name if the operators are unknown.
func (s *launchContext) classOf(in *NameInfo) uint8 {
	kernel := in.Kernel
	switch {
	case isCommunication(kernel):
		return kernel
	case kernel == GEMMClass && s.experts:
		return cMoEGEMM
	case in.inLLMTable:
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
		// Inside a convolution, casts, the bias and the sum for the bias gradient do not count as convolution.
		c = kernel
		if s.inner.class == CopyClass {
			c = CopyClass
		}
	case s.outer != NoClass && c != cCommunication:
		c = s.outer
	case c == cOther && kernel != NoClass:
		c = kernel
	}
	if s.isPartOfTensorProduct(c) {
		return cTensorProduct
	}
	if c == NoClass {
		return cOther
	}
	return c
}

func (s *launchContext) isPartOfTensorProduct(c uint8) bool {
	switch c {
	case ElementwiseClass, cReduction, CopyClass:
		return s.product == moduleTensorProduct
	case GEMMClass, cOther, NoClass:
		return s.product == moduleTensorProduct || s.product == moduleConvolution
	}
	return false
}
