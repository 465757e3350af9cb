package trace

import "slices"

// Span is a stretch of time [Start, End) in ns.
type Span struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// Len is the span's length in ns.
func (s Span) Len() int64 { return s.End - s.Start }

// Spans is a set of instants: sorted, disjoint, none empty. The functions
// below return sets and leave their arguments alone.
type Spans []Span

// UnionOf makes a set of any spans, in any order; it sorts and reuses v.
func UnionOf(v []Span) Spans {
	slices.SortFunc(v, func(a, b Span) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	out := v[:0]
	for _, s := range v {
		if s.End <= s.Start {
			continue
		}
		if n := len(out); n > 0 && s.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return Spans(out)
}

// Total is the length of the set in ns.
func (a Spans) Total() int64 {
	var n int64
	for _, s := range a {
		n += s.Len()
	}
	return n
}

// And is the intersection of two sets.
func (a Spans) And(b Spans) Spans {
	var out Spans
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End); from < to {
			out = append(out, Span{from, to})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
	return out
}

// Minus is what is in a and not in b.
func (a Spans) Minus(b Spans) Spans {
	var out Spans
	j := 0
	for _, s := range a {
		for j < len(b) && b[j].End <= s.Start {
			j++
		}
		from := s.Start
		for k := j; k < len(b) && b[k].Start < s.End; k++ {
			if b[k].Start > from {
				out = append(out, Span{from, b[k].Start})
			}
			from = max(from, b[k].End)
		}
		if from < s.End {
			out = append(out, Span{from, s.End})
		}
	}
	return out
}

// Or is the union of two sets.
func (a Spans) Or(b Spans) Spans {
	v := make([]Span, 0, len(a)+len(b))
	return UnionOf(append(append(v, a...), b...))
}

// Within is the part of a inside w.
func (a Spans) Within(w Span) Spans {
	lo, _ := slices.BinarySearchFunc(a, w.Start, func(s Span, t int64) int {
		if s.End <= t {
			return -1
		}
		return 1
	})
	var out Spans
	for _, s := range a[lo:] {
		if s.Start >= w.End {
			break
		}
		if from, to := max(s.Start, w.Start), min(s.End, w.End); from < to {
			out = append(out, Span{from, to})
		}
	}
	return out
}

// Contains says whether an instant is in the set.
func (a Spans) Contains(at int64) bool {
	i, found := slices.BinarySearchFunc(a, at, func(s Span, t int64) int {
		switch {
		case s.End <= t:
			return -1
		case s.Start > t:
			return 1
		}
		return 0
	})
	return found && i < len(a)
}

// before is the end of the last piece that ends at or before an instant, 0 none.
func (a Spans) before(at int64) int64 {
	i, _ := slices.BinarySearchFunc(a, at, func(s Span, t int64) int {
		if s.End <= t {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return a[i-1].End
}

// TotalIn is the length in ns of the part of the set inside w. It allocates
// nothing.
func (a Spans) TotalIn(w Span) int64 {
	lo, _ := slices.BinarySearchFunc(a, w.Start, func(s Span, t int64) int {
		if s.End <= t {
			return -1
		}
		return 1
	})
	var n int64
	for _, s := range a[lo:] {
		if s.Start >= w.End {
			break
		}
		n += max(0, min(s.End, w.End)-max(s.Start, w.Start))
	}
	return n
}
