package model

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"
)

// Finish cleans texts, sorts events, finds the launch of every device event, and removes or repairs and counts
// invalid records (gate.go). Readers call it once, after reading.
//
// A device event belongs to the API call with its correlation id in its process; Process -1 means any process. In
// broken traces several calls have one id. Then calls that start no device work are ignored, unless there are no
// others. Of the remaining calls, the last one that starts before the device event launched it. If all start later,
// the first one did, because the clocks of host and device may disagree.
func (t *Trace) Finish() {
	t.cleanTexts()
	t.dropUntimed()
	var wg sync.WaitGroup
	wg.Go(func() {
		order := make([]int32, len(t.GPU))
		for i := range order {
			order[i] = int32(i)
		}
		sortOrder(order, func(a, b int32) bool { return gpuBefore(&t.GPU[a], &t.GPU[b]) })
		permuteInPlace(t.GPU, order)
	})
	t.sortHost()
	wg.Wait()
	t.linkLaunches()
	g := recordGate{t: t}
	g.readCalls()
	g.unlinkShared()
	g.clipOverruns()
	t.warnLeftOut()
}

// hostBefore orders the events of a lane. At equal times, the event that can contain the other comes first.
func hostBefore(a, b *Host) bool {
	if a.Start != b.Start {
		return a.Start < b.Start
	}
	if a.End != b.End {
		return a.End > b.End
	}
	return depthOf[a.Kind&15] < depthOf[b.Kind&15]
}

// depthOf is the usual nesting depth of a kind of event.
var depthOf = [16]uint8{Step: 0, Annotation: 1, Python: 1, Op: 1, Overhead: 2, API: 3, Instant: 4}

// sortHost groups host events by lane and sorts each lane.
func (t *Trace) sortHost() {
	n := len(t.Host)
	if n == 0 {
		return
	}
	lanes := uint32(0)
	for i := range t.Host {
		lanes = max(lanes, t.Host[i].Lane)
	}
	order := make([]int32, n)
	if int(lanes) < 4*n+1024 {
		groupByLane(t.Host, order, int(lanes)+1)
	} else { // lane numbers that no reader makes
		for i := range order {
			order[i] = int32(i)
		}
		sortOrder(order, func(a, b int32) bool { return t.Host[a].Lane < t.Host[b].Lane })
	}
	for lo := 0; lo < n; {
		lane := t.Host[order[lo]].Lane
		hi := lo + RunLength(n-lo, func(i int) bool { return t.Host[order[lo+i]].Lane == lane })
		sortOrder(order[lo:hi], func(a, b int32) bool { return hostBefore(&t.Host[a], &t.Host[b]) })
		lo = hi
	}
	permuteInPlace(t.Host, order)
}

// groupByLane fills order with the events of lane 0, 1 and so on, each in file order.
func groupByLane(host []Host, order []int32, lanes int) {
	at := make([]int32, lanes+1)
	for i := range host {
		at[host[i].Lane+1]++
	}
	for i := 1; i <= lanes; i++ {
		at[i] += at[i-1]
	}
	for i := range host {
		l := host[i].Lane
		order[at[l]] = int32(i)
		at[l]++
	}
}

// sortOrder sorts indices stably, with a merge sort that starts from sorted runs. Profilers write events nearly
// sorted, or as a few sorted lists, so that it takes a few passes over memory.
func sortOrder(order []int32, less func(a, b int32) bool) {
	runs := []int{0}
	for i := 1; i < len(order); i++ {
		if less(order[i], order[i-1]) {
			runs = append(runs, i)
		}
	}
	if len(runs) == 1 {
		return
	}
	runs = append(runs, len(order))
	var tmp []int32
	for len(runs) > 2 {
		out := runs[:1]
		for i := 0; i+1 < len(runs); i += 2 {
			if i+2 >= len(runs) {
				out = append(out, runs[i+1])
				break
			}
			lo, mid, hi := runs[i], runs[i+1], runs[i+2]
			tmp = mergeRuns(order[lo:hi], mid-lo, tmp, less)
			out = append(out, hi)
		}
		runs = out
	}
}

// mergeRuns merges the sorted v[:mid] and v[mid:] in place. It copies the part of the first run that moves to tmp, and
// returns tmp for reuse.
func mergeRuns(v []int32, mid int, tmp []int32, less func(a, b int32) bool) []int32 {
	lo := sort.Search(mid, func(i int) bool { return less(v[mid], v[i]) })
	tmp = append(tmp[:0], v[lo:mid]...)
	i, j, k := 0, mid, lo
	for i < len(tmp) && j < len(v) {
		if less(v[j], tmp[i]) {
			v[k] = v[j]
			j++
		} else {
			v[k] = tmp[i]
			i++
		}
		k++
	}
	copy(v[k:], tmp[i:])
	return tmp
}

// permuteInPlace moves v[order[i]] to i. It overwrites order.
func permuteInPlace[T any](v []T, order []int32) {
	for i := range order {
		if order[i] == int32(i) {
			continue
		}
		held, at := v[i], int32(i)
		for {
			from := order[at]
			order[at] = at
			if from == int32(i) {
				v[at] = held
				break
			}
			v[at] = v[from]
			at = from
		}
	}
}

func (t *Trace) linkLaunches() {
	tables := newLaunchTables(t.GPU)
	anonymous := tables.tableOf(anyProcess) != nil
	var many [][]int32
	for i := range t.Host {
		h := &t.Host[i]
		if h.Kind != API || h.Corr == 0 {
			continue
		}
		process := t.ProcessOf(h.Lane)
		if process != anyProcess {
			many = tables.addCall(many, h.Corr, process, int32(i))
		}
		if anonymous {
			many = tables.addCall(many, h.Corr, anyProcess, int32(i))
		}
	}
	pick := t.newPicker(many)
	for i := range t.GPU {
		g := &t.GPU[i]
		g.Launch = -1
		if g.Corr == 0 {
			continue
		}
		switch call := *tables.findCall(g.Corr, g.Process); {
		case call >= 0:
			g.Launch = call
		case call <= callMany:
			g.Launch = pick.pickCall(int(callMany-call), g)
		}
	}
}

type callPicker struct {
	t    *Trace
	many [][]int32 // calls that share an id, sorted by start; only those that start device work, if there are any
}

func (t *Trace) newPicker(many [][]int32) *callPicker {
	starts := make(map[NameID]bool)
	for i, v := range many {
		work := v[:0:0]
		for _, h := range v {
			name := t.Host[h].Name
			is, ok := starts[name]
			if !ok {
				switch CallOf(t.Name(name)) {
				case CallLaunch, CallGraph, CallCopy, CallFill:
					is = true
				}
				starts[name] = is
			}
			if is {
				work = append(work, h)
			}
		}
		if len(work) > 0 {
			v = work
		}
		slices.SortFunc(v, func(a, b int32) int {
			return cmp.Or(cmp.Compare(t.Host[a].Start, t.Host[b].Start), cmp.Compare(a, b))
		})
		many[i] = v
	}
	return &callPicker{t, many}
}

// pickCall returns the last call that starts before the device event, else the first call. It returns -1 if the
// event's process is unknown and calls of several processes have the id.
func (p *callPicker) pickCall(at int, g *GPU) int32 {
	v := p.many[at]
	if g.Process == anyProcess {
		process := int32(math.MinInt32)
		for _, h := range v {
			own := p.t.ProcessOf(p.t.Host[h].Lane)
			if process != math.MinInt32 && own != process {
				return -1
			}
			process = own
		}
	}
	i := sort.Search(len(v), func(i int) bool { return p.t.Host[v[i]].Start > g.Start })
	return v[max(i-1, 0)]
}

// ProcessOf returns the process of a lane, 0 unknown.
func (t *Trace) ProcessOf(lane uint32) int32 {
	if int(lane) < len(t.Lanes) {
		return t.Lanes[lane].Process
	}
	return 0
}

// RunLength returns how many leading indices below n satisfy same, which must hold for a prefix.
func RunLength(n int, same func(int) bool) int {
	step := 1
	for step < n && same(step) {
		step *= 2
	}
	lo, hi := step/2, min(step, n)
	return lo + sort.Search(hi-lo, func(i int) bool { return !same(lo + i) })
}
