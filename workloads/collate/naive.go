package collate

// naiveLists models a collate function without arrays. Samples are lists of boxed numbers, and the batch grows element
// by element. Only at the end does it become memory that a device can copy. The many allocations are intended.
type naiveLists struct {
	samples [][fieldCount][]any
	batch   [fieldCount][]any
}

// boxSample converts sample i to lists.
func (l *naiveLists) boxSample(i int, s *sample, reuse bool) {
	for len(l.samples) <= i {
		l.samples = append(l.samples, [fieldCount][]any{})
	}
	lists := &l.samples[i]
	for f := fSpecies; f < fieldCount; f++ {
		if reuse {
			lists[f] = lists[f][:0]
		} else {
			lists[f] = nil
		}
		for _, v := range s.intField(f) {
			lists[f] = append(lists[f], v)
		}
		for _, v := range s.floatField(f) {
			lists[f] = append(lists[f], v)
		}
	}
}

// assemble appends the boxed samples to the batch's lists, and writes these lists to the batch's arrays. With
// r.Short, the lists of a single sample are written without the append.
func (l *naiveLists) assemble(b *batch, samples []sample, stride sizes, r *recipe) {
	writeCounts(b.intField(fCounts), samples)
	short := r.Short && len(samples) == 1
	for f := fSpecies; f < fieldCount; f++ {
		list := l.samples[0][f]
		if !short {
			if !r.Reuse {
				l.batch[f] = nil
			}
			l.batch[f] = l.joinField(l.batch[f][:0], f, samples, stride, r.Padded)
			list = l.batch[f]
		}
		storeList(b, f, list)
	}
}

// joinField appends field f of every sample, with indices relative to the batch.
func (l *naiveLists) joinField(out []any, f int, samples []sample, stride sizes, padded bool) []any {
	d := &fields[f]
	base := 0
	for i := range samples {
		list := l.samples[i][f]
		for _, v := range list {
			if x, ok := v.(int32); ok && d.base >= 0 {
				out = append(out, x+int32(base))
			} else {
				out = append(out, v)
			}
		}
		for range padding(len(list), stride[d.unit]*d.width, padded) {
			if d.pad == 0 {
				out = append(out, float32(0))
			} else {
				out = append(out, d.pad)
			}
		}
		if d.base >= 0 {
			base = nextSample(base, samples[i].unitSizes()[d.base], stride[d.base], padded)
		}
	}
	return out
}

func storeList(b *batch, f int, list []any) {
	ints, floats := b.intField(f), b.floatField(f)
	for i, v := range list {
		switch x := v.(type) {
		case int32:
			ints[i] = x
		case float32:
			floats[i] = x
		}
	}
}
