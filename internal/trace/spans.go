package trace

import (
	"cmp"
	"slices"
	"sort"
)

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
	slices.SortFunc(v, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
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
	var out Spans
	for _, s := range a[a.from(w.Start):] {
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
func (a Spans) Contains(at int64) bool { return len(a.around(at)) > 0 }

// around is the span of a set that holds an instant.
func (a Spans) around(at int64) Spans {
	i := a.from(at)
	if i < len(a) && a[i].Start <= at {
		return a[i : i+1]
	}
	return nil
}

// from is the place of the first span that ends after an instant.
func (a Spans) from(at int64) int {
	return sort.Search(len(a), func(i int) bool { return a[i].End > at })
}

// before is the end of the last piece that ends at or before an instant, 0 none.
func (a Spans) before(at int64) int64 {
	i := a.from(at)
	if i == 0 {
		return 0
	}
	return a[i-1].End
}

// TotalIn is the length in ns of the part of the set inside w. It allocates
// nothing.
func (a Spans) TotalIn(w Span) int64 {
	var n int64
	for _, s := range a[a.from(w.Start):] {
		if s.Start >= w.End {
			break
		}
		n += max(0, min(s.End, w.End)-max(s.Start, w.Start))
	}
	return n
}
