package memsnap

import (
	"cmp"
	"slices"
)

// Moment is the state after one event.
type Moment struct {
	Event  int   `json:"event"` // -1: before the first one
	TimeUS int64 `json:"time_us,omitempty"`
	Step   int   `json:"step"` // from 1; 0 without steps
	// Requested is the size of live tensors, Rounded a lower bound of their size in the allocator, Reserved the memory
	// taken from the driver; bytes.
	Requested int64 `json:"requested_bytes"`
	Rounded   int64 `json:"rounded_bytes"`
	Reserved  int64 `json:"reserved_bytes"`
	// FreeSplit is the free memory in segments with a live block, FreeWhole in segments without one, which empty_cache
	// would return. FreeLargest is the largest free piece.
	FreeSplit   int64       `json:"free_split_bytes"`
	FreeWhole   int64       `json:"free_whole_bytes"`
	FreeLargest int64       `json:"free_largest_bytes"`
	Categories  []Part      `json:"categories"` // largest first
	Sites       []SiteBytes `json:"sites"`      // largest first
	MoreSites   int         `json:"more_sites"` // not listed
	// Blocks are the largest live blocks; none in files of schema 1.0.
	Blocks []BlockBytes `json:"blocks"`
	// Calls and Segments are for charts: frames of the stacks, and the largest segments with their live pieces.
	Calls        []Call        `json:"calls"`
	Segments     []SegmentPart `json:"segments"`
	MoreSegments int           `json:"more_segments"` // not listed
	Stacks       []Held        `json:"-"`             // all stacks, largest first
}

// Part is the memory of one category.
type Part struct {
	Category string `json:"category"`
	Bytes    int64  `json:"bytes"`
	Blocks   int    `json:"blocks"`
}

// SiteBytes is the memory of one line of the program.
type SiteBytes struct {
	Where    string   `json:"where"` // "/home/u/train.py:12 in forward"
	Category string   `json:"category"`
	Bytes    int64    `json:"bytes"`
	Blocks   int      `json:"blocks"`
	Step     int      `json:"first_step"`      // first step that allocated one of the blocks; 0 unknown
	Stack    []string `json:"stack,omitempty"` // of the largest part, innermost frame first
}

// Held is the memory of one stack and category.
type Held struct {
	Stack    uint32
	Category Category
	Bytes    int64
	Blocks   int
}

const (
	mostSites = 100
	mostStack = 40
)

// momentBuilder computes the state of the memory after an event: its categories, program lines and segments.
type momentBuilder struct {
	r      *Replay
	traits []traits
	kinds  *classifier
}

func newAccount(r *Replay) *momentBuilder {
	t := r.S.stackTraits()
	return &momentBuilder{r: r, traits: t, kinds: r.newSorter(t)}
}

func (a *momentBuilder) traitsOf(row *allocation) *traits {
	return &a.traits[a.r.S.originOf(row).stack]
}

// stepOf returns the step of an event, from 1; 0 without steps.
func (r *Replay) stepOf(event int) int {
	if len(r.phases) == 0 || event < 0 {
		return 0
	}
	k, _ := slices.BinarySearchFunc(r.phases, event, func(p Phase, e int) int { return cmp.Compare(int(p.Last), e+1) })
	return min(k, len(r.phases)-1) + 1
}

// momentAt returns the state after an event.
func (a *momentBuilder) momentAt(event int, l Level, micros int64) Moment {
	m := Moment{Event: event, TimeUS: micros, Step: a.r.stepOf(event), Requested: l.Requested, Reserved: l.Reserved}
	type cell struct {
		stack uint32
		kind  Category
	}
	held := map[cell]*Held{}
	first := map[cell]int{}
	var live []allocation
	a.r.eachAlloc(func(row *allocation) {
		if !row.liveAt(event) {
			return
		}
		live = append(live, *row)
		c := cell{a.r.S.originOf(row).stack, a.kinds.classify(row)}
		h := held[c]
		if h == nil {
			h = &Held{Stack: c.stack, Category: c.kind}
			held[c] = h
		}
		h.Bytes += int64(row.size)
		h.Blocks++
		if row.born != never {
			if s := a.r.stepOf(int(row.born)); first[c] == 0 || s < first[c] {
				first[c] = s
			}
		}
	})
	a.addFree(&m, live)
	m.Blocks = a.largestBlocks(live)
	for _, h := range held {
		m.Stacks = append(m.Stacks, *h)
	}
	slices.SortFunc(m.Stacks, func(x, y Held) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Stack, y.Stack), cmp.Compare(x.Category, y.Category))
	})
	m.Calls = a.callTree(m.Stacks)
	a.sumStacks(&m, func(h Held) int { return first[cell{h.Stack, h.Category}] })
	return m
}

// sumStacks adds up the stacks of a moment by category and by line.
func (a *momentBuilder) sumStacks(m *Moment, first func(Held) int) {
	parts := map[Category]*Part{}
	type key struct {
		where string
		kind  Category
	}
	sites := map[key]*SiteBytes{}
	var order []*SiteBytes
	for _, h := range m.Stacks {
		p := parts[h.Category]
		if p == nil {
			p = &Part{Category: h.Category.String()}
			parts[h.Category] = p
		}
		p.Bytes += h.Bytes
		p.Blocks += h.Blocks
		where := a.siteOf(h)
		s := sites[key{where, h.Category}]
		if s == nil {
			s = &SiteBytes{Where: where, Category: h.Category.String(), Stack: a.stackText(h.Stack)}
			sites[key{where, h.Category}] = s
			order = append(order, s)
		}
		s.Bytes += h.Bytes
		s.Blocks += h.Blocks
		if k := first(h); s.Step == 0 || k > 0 && k < s.Step {
			s.Step = k
		}
	}
	for _, c := range Categories() {
		if p := parts[c]; p != nil {
			m.Categories = append(m.Categories, *p)
		}
	}
	slices.SortStableFunc(m.Categories, func(x, y Part) int { return cmp.Compare(y.Bytes, x.Bytes) })
	slices.SortStableFunc(order, func(x, y *SiteBytes) int { return cmp.Compare(y.Bytes, x.Bytes) })
	m.MoreSites = max(0, len(order)-mostSites)
	m.Sites = []SiteBytes{}
	for _, s := range order[:len(order)-m.MoreSites] {
		m.Sites = append(m.Sites, *s)
	}
}

// siteOf returns the code line of a stack; memory from before the recording mostly has none.
func (a *momentBuilder) siteOf(h Held) string {
	if h.Category == BeforeRecording && h.Stack == 0 {
		return beforeRecording
	}
	return a.traits[h.Stack].site
}

// stackText returns the frames of a stack without Machinery.
func (a *momentBuilder) stackText(id uint32) []string {
	out := []string{}
	for _, f := range a.r.S.Stack(id) {
		if f.Machinery() {
			continue
		}
		if len(out) == mostStack {
			return append(out, "…")
		}
		out = append(out, f.frameText())
	}
	return out
}

// addFree sets a moment's segments, and its rounded and free bytes.
func (a *momentBuilder) addFree(m *Moment, live []allocation) {
	slices.SortFunc(live, func(x, y allocation) int { return cmp.Compare(x.addr, y.addr) })
	k := 0
	for i := range live {
		m.Rounded += int64(a.r.S.Settings.roundSize(live[i].size))
	}
	spans := joinPages(a.r.spansAt(m.Event))
	m.Segments, m.MoreSegments = a.largestSegments(spans, live)
	for _, g := range spans {
		at, used := g.lo, uint64(0)
		for k < len(live) && live[k].addr < g.lo {
			k++ // in no segment: the events contradict each other
		}
		for ; k < len(live) && live[k].addr < g.hi; k++ {
			size := min(a.r.S.Settings.roundSize(live[k].size), g.hi-live[k].addr)
			if live[k].addr > at {
				m.FreeLargest = max(m.FreeLargest, int64(live[k].addr-at))
			}
			at = max(at, live[k].addr+size)
			used += size
		}
		rest := int64(g.hi - g.lo - min(used, g.hi-g.lo))
		m.FreeLargest = max(m.FreeLargest, int64(g.hi-min(at, g.hi)))
		if used == 0 {
			m.FreeWhole += rest
		} else {
			m.FreeSplit += rest
		}
	}
}

// joinPages joins adjacent pages of expandable segments, because blocks may cross them.
func joinPages(in []span) []span {
	var out []span
	for _, g := range in {
		if n := len(out); n > 0 && g.exp && out[n-1].exp && out[n-1].hi == g.lo {
			out[n-1].hi = g.hi
			continue
		}
		out = append(out, g)
	}
	return out
}
