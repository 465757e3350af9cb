package collate

import "unsafe"

// assemble lays samples out with a block copy for each array, plus one pass
// over each index to count from the batch's rows.
func assemble(b *batch, samples []sample, stride sizes, padded bool) {
	writeCounts(b.ints(fCounts), samples)
	for f := fSpecies; f < fieldCount; f++ {
		d := &fields[f]
		at, base := 0, 0
		if floats := b.floats(f); d.pad == 0 {
			for i := range samples {
				v := samples[i].floats(f)
				if !same(floats[at:], v) {
					copy(floats[at:], v)
				}
				at = after(at, len(v), stride[d.unit]*d.width, padded)
				clear(floats[at-gap(len(v), stride[d.unit]*d.width, padded) : at])
			}
			continue
		}
		ints := b.ints(f)
		for i := range samples {
			v := samples[i].ints(f)
			out := ints[at : at+len(v)]
			switch {
			case same(out, v):
			case d.base < 0 || base == 0:
				copy(out, v)
			default:
				for j, x := range v {
					out[j] = x + int32(base)
				}
			}
			at = after(at, len(v), stride[d.unit], padded)
			fill(ints[at-gap(len(v), stride[d.unit], padded):at], d.pad)
			if d.base >= 0 {
				base = after(base, samples[i].sizes()[d.base], stride[d.base], padded)
			}
		}
	}
}

// writeCounts fills the field counts: atoms, atom edges, probes, probe edges.
func writeCounts(out []int32, samples []sample) {
	for i := range samples {
		n := samples[i].sizes()
		for u := uAtom; u < unitCount; u++ {
			out[4*i+u-uAtom] = int32(n[u])
		}
	}
}

// after is where the next sample begins, gap how much of that is padding.
func after(at, n, stride int, padded bool) int { return at + n + gap(n, stride, padded) }

func gap(n, stride int, padded bool) int {
	if padded {
		return stride - n
	}
	return 0
}

func fill(out []int32, v int32) {
	for i := range out {
		out[i] = v
	}
}

// same says that v lies at the beginning of out already.
func same[T int32 | float32](out, v []T) bool {
	return len(v) > 0 && len(out) > 0 && unsafe.SliceData(out) == unsafe.SliceData(v)
}

// aim makes the sample's arrays grow inside the slot, so that the sample is the
// batch when it is the only one. What outgrows its place ends up elsewhere and
// is copied after all.
func (s *sample) aim(sl *slot) {
	region := func(f int) []byte {
		at, n := 4*sl.frame.at[f], 4*sl.frame.caps[fields[f].unit]*fields[f].width
		return sl.home[at : at : at+n]
	}
	ints := func(f int) []int32 { b := region(f); return intsOf(b[:cap(b)])[:0] }
	floats := func(f int) []float32 { b := region(f); return floatsOf(b[:cap(b)])[:0] }
	s.own.species, s.own.pos, s.own.dst = ints(fSpecies), floats(fPos), ints(fEDst)
	s.own.edges.Src, s.own.edges.Vec = ints(fESrc), floats(fEVec)
	s.probes, s.dst = floats(fProbe), ints(fPDst)
	s.reach.Src, s.reach.Vec = ints(fPSrc), floats(fPVec)
}
