package page

// box is an operation, or several neighbouring ones.
type box struct {
	from, to int64 // ns since the start of the recording
	kind     int   // index of the timeline's kinds
	name     string
	count    int
	longest  int64 // length of the longest operation
	ns       int64 // time of the operations, ns, before add cut overlaps
	host     int32 // index of the longest operation's host event plus one; 0: none
	parts    []part
}

// part is the number and the total time of the operations of one kind in a timeline box.
type part struct {
	kind, count int
	ns          int64
}

// boxRow is a row of the timeline, with the number of times that its neighbours were merged (mergeLimit).
type boxRow struct {
	name   string
	sums   string // "stream" or "idle" if a selection adds up the boxes
	boxes  []box
	times  int
	hidden int // operations that are not drawn: without length, or covered by others
	input  int // index of the input
}

// mergeLimit returns the length, ns, below which the n-th merge of a row joins neighbouring boxes.
func mergeLimit(n int) int64 {
	if n == 0 {
		return 0
	}
	return 500 << (n - 1)
}

// rowBuilder builds a row from boxes in order of start. Above maxBoxes it merges neighbours as boxes arrive.
type rowBuilder struct {
	last   int64 // end of the last box
	hidden int
	merges []joined
	out    []box
}

// joined is the state of one merge: its last box, which may still join the next one if open.
type joined struct {
	box  box
	open bool
}

// add adds a box without its overlap with the previous one, since a row shows one operation at a time.
func (r *rowBuilder) add(b box) {
	b.ns = b.to - b.from
	b.from = max(b.from, r.last)
	if b.to <= b.from {
		r.hidden++
		return
	}
	r.last = b.to
	r.pushMerged(0, b)
}

// pushMerged passes a box to merge n. Each merge joins neighbours over a longer distance than the merge before it.
// After the last merge the box is part of the row.
func (r *rowBuilder) pushMerged(n int, b box) {
	if n == len(r.merges) {
		if r.out = append(r.out, b); len(r.out) > maxBoxes {
			all := r.out
			r.out, r.merges = make([]box, 0, maxBoxes+1), append(r.merges, joined{})
			for _, b := range all {
				r.pushMerged(n, b)
			}
		}
		return
	}
	b.setLongest()
	m := &r.merges[n]
	if m.open {
		if m.box.joinNext(&b, mergeLimit(n+1)) {
			return
		}
		closed := m.box
		m.box = b
		r.pushMerged(n+1, closed)
		return
	}
	m.box, m.open = b, true
}

// buildRow closes the open boxes of all merges and returns the row.
func (r *rowBuilder) buildRow(name, sums string) boxRow {
	for n := 0; n < len(r.merges); n++ { // the last merge may start another one
		if m := &r.merges[n]; m.open {
			m.open = false
			r.pushMerged(n+1, m.box)
		}
	}
	return boxRow{name: name, sums: sums, boxes: r.out, times: len(r.merges), hidden: r.hidden}
}

// setLongest sets longest for a box of one operation.
func (b *box) setLongest() {
	if b.longest == 0 {
		b.longest = b.to - b.from
	}
}

// opTime returns the time of a box's operations, ns.
func (b *box) opTime() int64 {
	if b.ns == 0 {
		return b.to - b.from
	}
	return b.ns
}

// joinNext joins a box with the next one if their common length and the gap between them are below res, ns. The longest
// operation gives the joined box its kind and name.
func (b *box) joinNext(next *box, res int64) bool {
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

// thinRows merges neighbours until all rows together have at most maxBoxes. It returns the length, ns, below which
// neighbours are merged.
func thinRows(rows []boxRow) int64 {
	times := 0
	for i := range rows {
		times = max(times, rows[i].times)
	}
	for ; ; times++ {
		total := 0
		for i := range rows {
			for r := &rows[i]; r.times < times; {
				r.times++
				r.boxes = merge(r.boxes, mergeLimit(r.times))
			}
			total += len(rows[i].boxes)
		}
		if total <= maxBoxes {
			return mergeLimit(times)
		}
	}
}

// merge joins neighbours whose common length, and the gap between them, are below res, ns.
func merge(v []box, res int64) []box {
	out := v[:0]
	for _, b := range v {
		b.setLongest()
		if n := len(out); n == 0 || !out[n-1].joinNext(&b, res) {
			out = append(out, b)
		}
	}
	return out
}
