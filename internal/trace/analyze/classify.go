package analyze

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// opWords is what the name of an operator or range says about the work in it.
type opWords struct {
	class uint8 // index into Classes, classNone when it says nothing
	// whole says that operators inside belong to it: a matrix product of an
	// LSTM is part of the LSTM.
	whole bool
}

// modelWords is what the name of a module or range says.
type modelWords uint8

const (
	modelPlain         modelWords = iota
	modelNeutral                  // a wrapper that compilers make: what is around it decides
	modelTensorProduct            // an equivariant tensor product
	// modelConvolution is a name that e3nn and others use: a tensor product, where
	// the trace has those, except for what it does element by element.
	modelConvolution
)

// NoClass stands for no class.
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
func communicates(class uint8) bool { return class == cCommunication || class == cMoEAllToAll }

// classify gives every GPU event its class: memory operations are copies,
// kernels go by the operators around their launch first and by their own name
// second. What an operator is depends only on where it stands, so kernels
// that follow each other from one operator ask once.
func (x *Index) classify() {
	t := x.T
	x.class = make([]uint8, len(t.GPU))
	// Launches from one operator come together, nearly always.
	lastOp, lastLaunch := int32(-2), int32(-2)
	var around surroundings
	for i := range t.GPU {
		g := &t.GPU[i]
		if g.Kind != model.Kernel {
			x.class[i] = CopyClass
			continue
		}
		if op := x.gpuOp[i]; op != lastOp || op < 0 && g.Launch != lastLaunch {
			around = x.surroundings(op, g.Launch)
			lastOp, lastLaunch = op, g.Launch
		}
		x.class[i] = around.classOf(&x.Info[g.Name])
	}
}

// surroundings is what the operators, ranges and modules around a launch say.
type surroundings struct {
	inner     opWords // the innermost operator that says something
	outer     uint8   // the innermost operator that owns what is in it, else classNone
	optimizer bool
	experts   bool       // a range of the experts of a mixture
	product   modelWords // modelTensorProduct, modelConvolution: in the module of one
}

// surroundings looks up from an operator (-1 none) or, without one, a launch.
func (x *Index) surroundings(op, launch int32) surroundings {
	s := surroundings{inner: opWords{class: NoClass}, outer: NoClass}
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
		s.product = x.inProduct(at)
		s.optimizer = s.optimizer || x.InOptimizer(at)
	}
	return s
}

// inProduct is the kind of the innermost module around an event, compilers'
// wrappers aside.
func (x *Index) inProduct(host int32) modelWords {
	for m := x.moduleOf(host); m >= 0; {
		switch w := x.Info[x.T.Host[m].Name].model; {
		case w == modelConvolution && !x.products:
			return modelPlain
		case w != modelNeutral:
			return w
		}
		p := x.parent[m]
		if p < 0 {
			break
		}
		m = x.mod[p]
	}
	return modelPlain
}

// InOptimizer says whether an event lies in a range Optimizer.step#….
func (x *Index) InOptimizer(host int32) bool {
	for h := host; h >= 0; h = x.parent[h] {
		if x.Info[x.T.Host[h].Name].Flags&NameOptimizer != 0 {
			return true
		}
	}
	return false
}

// classOf is the class of a kernel by its name and what is around its launch.
func (s *surroundings) classOf(in *NameInfo) uint8 {
	kernel := in.Kernel
	switch {
	case communicates(kernel):
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
	if s.ofProduct(c) {
		return cTensorProduct
	}
	if c == NoClass {
		return cOther
	}
	return c
}

// ofProduct says whether work of a class is part of the tensor product around it.
func (s *surroundings) ofProduct(c uint8) bool {
	switch c {
	case ElementwiseClass, cReduction, CopyClass:
		return s.product == modelTensorProduct
	case GEMMClass, cOther, NoClass:
		return s.product == modelTensorProduct || s.product == modelConvolution
	}
	return false
}
