package memsnap

import (
	"cmp"
	"maps"
	"slices"
)

// Call is a frame of a stack: its bytes are the range From to To, within the range of its caller.
type Call struct {
	Where string `json:"where"`
	Depth int    `json:"depth"` // 0 is the outermost
	From  int64  `json:"from_bytes"`
	To    int64  `json:"to_bytes"`
}

// Limits of the stacks and segments that a document stores for charts.
const (
	deepestCall  = 20
	mostCalled   = 4096 // stacks to analyse, largest first
	leastCalled  = 200  // frames with less than 1/leastCalled of all bytes are left out
	mostSegments = 32
	finest       = 600 // pieces below 1/finest of the segments are merged with the previous one
)

// callNode is a frame in a tree of stacks, with the bytes that the stacks through it hold.
type callNode struct {
	where string
	bytes int64
	in    map[string]*callNode
}

func (c *callNode) childFrame(where string) *callNode {
	next := c.in[where]
	if next == nil {
		next = &callNode{where: where, in: map[string]*callNode{}}
		c.in[where] = next
	}
	return next
}

// callTree returns the frames that hold memory, callers first.
func (a *momentBuilder) callTree(stacks []Held) []Call {
	root := &callNode{in: map[string]*callNode{}}
	for _, h := range stacks[:min(len(stacks), mostCalled)] {
		root.bytes += h.Bytes
		path := a.stackText(h.Stack)
		slices.Reverse(path)
		if len(path) == 0 {
			path = []string{a.siteOf(h)}
		}
		at := root
		for _, where := range path[:min(len(path), deepestCall)] {
			at = at.childFrame(where)
			at.bytes += h.Bytes
		}
	}
	out := []Call{}
	var add func(c *callNode, depth int, from int64)
	add = func(c *callNode, depth int, from int64) {
		inner := slices.SortedFunc(maps.Values(c.in), func(x, y *callNode) int {
			return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.where, y.where))
		})
		for _, k := range inner {
			if k.bytes == 0 || k.bytes < root.bytes/leastCalled {
				return
			}
			out = append(out, Call{k.where, depth, from, from + k.bytes})
			add(k, depth+1, from)
			from += k.bytes
		}
	}
	add(root, 0, 0)
	return out
}

// SegmentPart is a segment with its live pieces.
type SegmentPart struct {
	Bytes  int64   `json:"bytes"`
	Live   int64   `json:"live_bytes"` // in the allocator's sizes; a lower bound
	Pieces []Piece `json:"pieces"`
}

// Piece is a live part of a segment, as a range of offsets. Small neighbours are merged into one piece with the first
// one's category.
type Piece struct {
	From     int64  `json:"from_bytes"`
	To       int64  `json:"to_bytes"`
	Category string `json:"category"`
}

// largestSegments returns the largest reserved ranges, and the number of ranges left out (more); live is sorted by
// address.
func (a *momentBuilder) largestSegments(spans []span, live []allocation) (out []SegmentPart, more int) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(x, y span) int { return cmp.Compare(y.hi-y.lo, x.hi-x.lo) })
	more = max(0, len(spans)-mostSegments)
	spans = spans[:len(spans)-more]
	var all uint64
	for _, g := range spans {
		all += g.hi - g.lo
	}
	out = []SegmentPart{}
	for _, g := range spans {
		m := SegmentPart{Bytes: int64(g.hi - g.lo), Pieces: []Piece{}}
		k, _ := slices.BinarySearchFunc(live, g.lo, func(b allocation, lo uint64) int { return cmp.Compare(b.addr, lo) })
		for ; k < len(live) && live[k].addr < g.hi; k++ {
			size := min(a.r.S.Settings.roundSize(live[k].size), g.hi-live[k].addr)
			m.addPiece(Piece{int64(live[k].addr - g.lo), int64(live[k].addr - g.lo + size), a.kinds.classify(&live[k]).String()}, int64(all/finest))
		}
		out = append(out, m)
	}
	return out, more
}

// addPiece appends a live block, or merges it with the piece before.
func (m *SegmentPart) addPiece(p Piece, least int64) {
	m.Live += p.To - p.From
	if n := len(m.Pieces); n > 0 {
		last := &m.Pieces[n-1]
		gap, same := p.From-last.To, last.Category == p.Category
		if same && gap == 0 || gap < least && (p.To-p.From < least || same) {
			last.To = max(last.To, p.To)
			return
		}
	}
	m.Pieces = append(m.Pieces, p)
}
