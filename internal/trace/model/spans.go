package model

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Span is a time span [Start, End) in ns.
type Span struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// Len returns the span's length in ns.
func (s Span) Len() int64 { return s.End - s.Start }

// Spans is a set of times: sorted, disjoint, non-empty spans. Methods return new sets; their arguments stay unchanged.
type Spans []Span

// UnionOf makes a set of spans in any order; it sorts and reuses v.
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

// Total returns the length of the set in ns.
func (a Spans) Total() int64 {
	var n int64
	for _, s := range a {
		n += s.Len()
	}
	return n
}

// And returns the intersection of two sets.
func (a Spans) And(b Spans) Spans { return Gather(func(f func(Span)) { a.eachCommon(b, f) }) }

// TotalAnd returns the length of the intersection of two sets, ns, without allocating.
func (a Spans) TotalAnd(b Spans) (ns int64) {
	a.eachCommon(b, func(s Span) { ns += s.Len() })
	return ns
}

// eachCommon calls f for every span of the intersection of two sets, in order.
func (a Spans) eachCommon(b Spans, f func(Span)) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if from, to := max(a[i].Start, b[j].Start), min(a[i].End, b[j].End); from < to {
			f(Span{from, to})
		}
		if a[i].End < b[j].End {
			i++
		} else {
			j++
		}
	}
}

// Gather makes a set of the spans that each yields. It calls each twice, to count and to store: sets may have a
// million spans, and growing slices would leave five times as much garbage.
func Gather(each func(f func(Span))) Spans {
	n := 0
	each(func(Span) { n++ })
	if n == 0 {
		return nil
	}
	out := make(Spans, 0, n)
	each(func(s Span) { out = append(out, s) })
	return out
}

// Minus returns the part of a outside b.
func (a Spans) Minus(b Spans) Spans { return Gather(func(f func(Span)) { a.eachWithout(b, f) }) }

// eachWithout calls f for every span of a outside b, in order.
func (a Spans) eachWithout(b Spans, f func(Span)) {
	j := 0
	for _, s := range a {
		for j < len(b) && b[j].End <= s.Start {
			j++
		}
		from := s.Start
		for k := j; k < len(b) && b[k].Start < s.End; k++ {
			if b[k].Start > from {
				f(Span{from, b[k].Start})
			}
			from = max(from, b[k].End)
		}
		if from < s.End {
			f(Span{from, s.End})
		}
	}
}

// Or returns the union of two sets.
func (a Spans) Or(b Spans) Spans {
	v := make([]Span, 0, len(a)+len(b))
	return UnionOf(append(append(v, a...), b...))
}

// Within returns the part of a inside w.
func (a Spans) Within(w Span) Spans {
	out := slices.Clone(a.Near(w))
	if n := len(out); n > 0 {
		out[0].Start, out[n-1].End = max(out[0].Start, w.Start), min(out[n-1].End, w.End)
	}
	return out
}

// Near returns the spans of a that touch w, unclipped. The slice belongs to a.
func (a Spans) Near(w Span) Spans {
	if w.End <= w.Start {
		return nil
	}
	lo := a.FirstFrom(w.Start)
	return a[lo : lo+sort.Search(len(a)-lo, func(i int) bool { return a[lo+i].Start >= w.End })]
}

// Contains reports whether a time is in the set.
func (a Spans) Contains(at int64) bool { return len(a.Around(at)) > 0 }

// Around returns the span that contains a time, nil without one.
func (a Spans) Around(at int64) Spans {
	i := a.FirstFrom(at)
	if i < len(a) && a[i].Start <= at {
		return a[i : i+1]
	}
	return nil
}

// FirstFrom returns the index of the first span that ends after a time.
func (a Spans) FirstFrom(at int64) int {
	return sort.Search(len(a), func(i int) bool { return a[i].End > at })
}

// Before returns the end of the last span that ends at or before a time, 0 none.
func (a Spans) Before(at int64) int64 {
	i := a.FirstFrom(at)
	if i == 0 {
		return 0
	}
	return a[i-1].End
}

// TotalIn returns the length of the set inside w, ns, without allocating.
func (a Spans) TotalIn(w Span) int64 {
	var n int64
	for _, s := range a[a.FirstFrom(w.Start):] {
		if s.Start >= w.End {
			break
		}
		n += max(0, min(s.End, w.End)-max(s.Start, w.Start))
	}
	return n
}

// Overlaps reports whether an event is at least partly inside s.
func (s Span) Overlaps(start, end int64) bool {
	return start < s.End && (end > s.Start || start == end && start >= s.Start)
}

// isValid reports whether the span does not end before it starts, and its times are small enough to add two.
func (s Span) isValid() bool {
	const most = math.MaxInt64 / 2
	return s.Start >= -most && s.End <= most && s.Start <= s.End
}

func (s Span) shiftBy(by int64) Span { return Span{s.Start + by, s.End + by} }

// First returns the earliest part of a set that has a total length of ns.
func (a Spans) First(ns int64) Spans {
	for i, s := range a {
		if ns < s.Len() {
			out := append(make(Spans, 0, i+1), a[:i]...)
			if ns > 0 {
				out = append(out, Span{s.Start, s.Start + ns})
			}
			return out
		}
		ns -= s.Len()
	}
	return a
}

// Hull returns the shortest span around a set.
func (a Spans) Hull() Span {
	if len(a) == 0 {
		return Span{}
	}
	return Span{a[0].Start, a[len(a)-1].End}
}
