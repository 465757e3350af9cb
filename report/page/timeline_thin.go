package page

// box is an operation, or several beside each other.
type box struct {
	from, to int64
	kind     int // index into the kinds of the timeline
	name     string
	count    int
	longest  int64 // of one of them
	ns       int64 // own time of the operations, which may be drawn shorter
	host     int32 // host event of the longest one plus one, 0 none
	parts    []part
}

// part has the sums of one kind of operations in a box.
type part struct {
	kind, count int
	ns          int64
}

// boxRow is a row of the timeline whose neighbours were merged so many times, see
// resolution.
type boxRow struct {
	name   string
	sums   string // "stream" or "idle" where a selection adds up its boxes
	boxes  []box
	times  int
	hidden int // operations that are not drawn: no length, or below others
	input  int // index of the input
}

// resolution is the time, ns, that what is merged the n-th time is shorter than.
func resolution(n int) int64 {
	if n == 0 {
		return 0
	}
	return 500 << (n - 1)
}

// rowBuilder makes a row of boxes that come in the order of their starts. It holds no
// more than a page can: where there are more, neighbours are merged, as often as they
// would have been if all had been held.
type rowBuilder struct {
	last   int64 // the end of the last box
	hidden int
	merges []joined
	out    []box
}

// joined is a merge under way: the box that the next one may be joined with.
type joined struct {
	box  box
	open bool
}

// add adds a box, or of one that begins before the last has ended what is behind it: calls
// nest only in damaged traces, and a row holds one thing at a time.
func (r *rowBuilder) add(b box) {
	b.ns = b.to - b.from
	b.from = max(b.from, r.last)
	if b.to <= b.from {
		r.hidden++
		return
	}
	r.last = b.to
	r.push(0, b)
}

// push gives a box to a merge, or behind the last one to the row.
func (r *rowBuilder) push(n int, b box) {
	if n == len(r.merges) {
		if r.out = append(r.out, b); len(r.out) > maxBoxes {
			all := r.out
			r.out, r.merges = make([]box, 0, maxBoxes+1), append(r.merges, joined{})
			for _, b := range all {
				r.push(n, b)
			}
		}
		return
	}
	b.setLongest()
	m := &r.merges[n]
	if m.open {
		if m.box.join(&b, resolution(n+1)) {
			return
		}
		closed := m.box
		m.box = b
		r.push(n+1, closed)
		return
	}
	m.box, m.open = b, true
}

// row is what was added.
func (r *rowBuilder) row(name, sums string) boxRow {
	for n := 0; n < len(r.merges); n++ { // the last may make one more
		if m := &r.merges[n]; m.open {
			m.open = false
			r.push(n+1, m.box)
		}
	}
	return boxRow{name: name, sums: sums, boxes: r.out, times: len(r.merges), hidden: r.hidden}
}

// setLongest sets the length of a box of one operation.
func (b *box) setLongest() {
	if b.longest == 0 {
		b.longest = b.to - b.from
	}
}

// opTime returns the time of the operations of a box, ns.
func (b *box) opTime() int64 {
	if b.ns == 0 {
		return b.to - b.from
	}
	return b.ns
}

// join joins a box with the next where both together are shorter than res and close. The
// whole has the kind and name of the longest operation in it.
func (b *box) join(next *box, res int64) bool {
	if next.to-b.from >= res || next.from-b.to >= res {
		return false
	}
	if b.parts == nil {
		b.parts = []part{{b.kind, b.count, b.opTime()}}
	}
	if next.parts == nil {
		b.addPart(part{next.kind, next.count, next.opTime()})
	}
	for _, p := range next.parts {
		b.addPart(p)
	}
	if next.longest > b.longest {
		b.longest, b.kind, b.name, b.host = next.longest, next.kind, next.name, next.host
	}
	b.to, b.count = max(b.to, next.to), b.count+next.count
	return true
}

func (b *box) addPart(p part) {
	for i := range b.parts {
		if b.parts[i].kind == p.kind {
			b.parts[i].count += p.count
			b.parts[i].ns += p.ns
			return
		}
	}
	b.parts = append(b.parts, p)
}

// thin merges neighbours until all rows together hold at most maxBoxes. It returns the
// resolution.
func thin(rows []boxRow) int64 {
	times := 0
	for i := range rows {
		times = max(times, rows[i].times)
	}
	for ; ; times++ {
		total := 0
		for i := range rows {
			for r := &rows[i]; r.times < times; {
				r.times++
				r.boxes = merge(r.boxes, resolution(r.times))
			}
			total += len(rows[i].boxes)
		}
		if total <= maxBoxes {
			return resolution(times)
		}
	}
}

// merge joins neighbours shorter than res that lie within res of each other.
func merge(v []box, res int64) []box {
	out := v[:0]
	for _, b := range v {
		b.setLongest()
		if n := len(out); n == 0 || !out[n-1].join(&b, res) {
			out = append(out, b)
		}
	}
	return out
}
