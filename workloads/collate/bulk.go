package collate

import "unsafe"

// assemble copies each array of each sample as a block, and adds the batch's row offset to each index.
func assemble(b *batch, samples []sample, stride sizes, padded bool) {
	writeCounts(b.intField(fCounts), samples)
	for f := fSpecies; f < fieldCount; f++ {
		d := &fields[f]
		at, base := 0, 0
		if floats := b.floatField(f); d.pad == 0 {
			for i := range samples {
				v := samples[i].floatField(f)
				if !startsWith(floats[at:], v) {
					copy(floats[at:], v)
				}
				at = nextSample(at, len(v), stride[d.unit]*d.width, padded)
				clear(floats[at-padding(len(v), stride[d.unit]*d.width, padded) : at])
			}
			continue
		}
		ints := b.intField(f)
		for i := range samples {
			v := samples[i].intField(f)
			out := ints[at : at+len(v)]
			switch {
			case startsWith(out, v):
			case d.base < 0 || base == 0:
				copy(out, v)
			default:
				for j, x := range v {
					out[j] = x + int32(base)
				}
			}
			at = nextSample(at, len(v), stride[d.unit], padded)
			fillWith(ints[at-padding(len(v), stride[d.unit], padded):at], d.pad)
			if d.base >= 0 {
				base = nextSample(base, samples[i].unitSizes()[d.base], stride[d.base], padded)
			}
		}
	}
}

// writeCounts fills the field counts: atoms, atom edges, probes, probe edges.
func writeCounts(out []int32, samples []sample) {
	for i := range samples {
		n := samples[i].unitSizes()
		for u := uAtom; u < unitCount; u++ {
			out[4*i+u-uAtom] = int32(n[u])
		}
	}
}

// nextSample returns the first row of the next sample, after a sample of n rows that begins at row at. In a padded
// batch, samples are stride rows apart.
func nextSample(at, n, stride int, padded bool) int { return at + n + padding(n, stride, padded) }

func padding(n, stride int, padded bool) int {
	if padded {
		return stride - n
	}
	return 0
}

func fillWith(out []int32, v int32) {
	for i := range out {
		out[i] = v
	}
}

// startsWith reports whether out begins at v's own memory: v is already in place.
func startsWith[T int32 | float32](out, v []T) bool {
	return len(v) > 0 && len(out) > 0 && unsafe.SliceData(out) == unsafe.SliceData(v)
}

// aimAt makes the sample's arrays grow inside the slot, so that a batch of one sample needs no copy. An array that
// outgrows its place is copied later.
func (s *sample) aimAt(sl *slot) {
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
