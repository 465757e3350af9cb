package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func (s *session) inputWords() int64 {
	return int64(windowOf(s.k)*s.k.Micro()) * int64(s.shape.T) * int64(s.shape.B) * int64(s.shape.I)
}

// metricWords returns the number of metrics of all levels, plus the loss in training.
func (s *session) metricWords() int {
	if s.train != nil {
		return s.train.window*s.shape.metrics() + 1
	}
	return s.shape.metrics()
}

func (s *session) parameterWords() int64 {
	var n int64
	for l := range s.shape.L {
		n += int64(s.shape.gates()) * int64(s.shape.inputWidth(l)+s.shape.H+2)
	}
	return n + outputs*int64(s.shape.H+1)
}

func (s *session) stateWords() int64 {
	b := int64(s.shape.B)
	return int64(s.shape.L)*b*int64(s.shape.H) + 5*b + outputs*b + int64(s.metricWords())
}

// scratchWords returns an upper bound, in four-byte words, of the scratch memory that is in use at the same time.
func (s *session) scratchWords() int64 {
	sh := s.shape
	if s.train != nil {
		kind := s.mem.Dev.Info().Kind
		return s.train.u.scratchWords(kind, s.train.outerShapes()...) + int64(sh.B)*int64(sh.H) + int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics())
	}
	rows, b, h := int64(sh.T)*int64(sh.B), int64(sh.B), int64(sh.H)
	wide := int64(max(sh.I, sh.H))
	n := rows*3*h + b*3*h
	switch s.impl {
	case implCuDNN:
		n = 0
	case implPlain:
		n += 3 * b * h
	}
	if s.impl != implCuDNN && s.prec != fp32 {
		n += s.prec.words(rows*wide) + s.prec.words(b*h)
	}
	if s.impl != implCuDNN && sh.T > 1 {
		n += 2 * rows * h
	}
	return max(n, int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics()))
}

// reservedWords returns an upper bound, in bytes, of the memory that the pool reserves for this many four-byte words of
// scratch memory. Requests up to 1 MiB share segments of 2 MiB, those up to 10 MiB segments of 20 MiB. Larger ones, up
// to eight at a time in a step, are rounded up to 2 MiB.
func reservedWords(words int64) int64 {
	const mib = 1 << 20
	if 4*words <= mib {
		return 4 * mib
	}
	return 4*words + (2+20+8*2)*mib
}

// weightWords returns the number of four-byte words of the stored parameters, and in training also of all memory that
// training adds.
func (s *session) weightWords() int64 {
	if s.train != nil {
		return outputs*int64(s.shape.H+1) + s.train.memoryWords(s.mem.Dev.Info().Kind)
	}
	if s.rec != nil {
		return s.parameterWords() + s.rec.extraWords()
	}
	return s.parameterWords()
}

// libraryWords returns the number of four-byte words that impl=cudnn adds; cuDNN's own workspace is unknown before it
// is queried.
func (s *session) libraryWords() int64 {
	if s.impl != implCuDNN {
		return 0
	}
	state := int64(s.shape.L) * int64(s.shape.B) * int64(s.shape.H)
	n := state + int64(s.shape.T)*int64(s.shape.B)*int64(s.shape.H)
	if s.prec.isNarrow() {
		n += s.inputWords() + 2*state
	}
	return n
}

// checkMemory refuses sizes beyond 32-bit indices or the device's memory, before any allocation.
func (s *session) checkMemory(d device.Device) error {
	sh := s.shape
	largest := max(int64(sh.T)*int64(sh.B)*int64(max(sh.gates(), sh.I)), int64(sh.L)*int64(sh.B)*int64(sh.H), int64(ceilDiv(sh.B, metricBlock))*int64(sh.metrics()))
	if s.rec != nil {
		largest = max(largest, s.inputWords(), int64(s.rec.every*sh.T+1)*int64(sh.B)*int64(sh.H))
	}
	if largest > math.MaxInt32 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening gruflow: its largest array would have %d elements, more than 32 bits index", largest).WithFix("use a smaller --set flows, steps, hidden or input")
	}
	input := int64(depth+s.batches) * s.inputWords()
	out := depth * (outputs*int64(sh.B) + int64(s.metricWords()))
	need := 4*(input+out+s.weightWords()+s.stateWords()+s.libraryWords()) + reservedWords(s.scratchWords())
	if left := d.Memory().Available; need > left {
		if s.rec != nil && s.rec.windows() > 1 {
			return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "keeping %d windows of %d flows of %d layers of %d units needs %s, and the device has %s left", s.rec.windows(), sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use windows_kept=1, as a program that detaches does, or checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.rec.window, sh.T)))
		}
		if s.train != nil {
			return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "training %d flows of %d layers of %d units over %d levels needs %s, and the device has %s left", sh.B, sh.L, sh.H, s.train.window, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use checkpoint=%d, a smaller window, or a smaller batch, --set flows", leastCheckpoint(s.train.window, sh.T)))
		}
		return device.Short(d, gpuprof.Errorf(gpuprof.ErrMemory, "%d flows of %d layers of %d units need %s, and the device has %s left", sh.B, sh.L, sh.H, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set flows, hidden or steps"))
	}
	return nil
}
