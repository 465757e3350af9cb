package period

import (
	"math"
	"slices"
)

// nameCounts counts the launches with one name in the repeats, the stretches from one start of a nameRun to the next.
type nameCounts struct {
	repeats []int32 // indexes of the repeats that contain the name
	counts  []int32 // launches in each of these repeats
	median  int32   // median of the launches per repeat, over the repeats of about median length (isAlike)
	n       int     // launches in all repeats
	ns      float64 // mean device time of a launch, ns
	kernel  bool    // false for a copy or fill
}

func (s *sequence) countNames(r nameRun) []*nameCounts {
	byName := map[int32]*nameCounts{}
	var order []*nameCounts
	for i := range len(r.at) - 1 {
		for k := r.at[i]; k < r.at[i+1]; k++ {
			l := &s.all[k]
			x := byName[l.Name]
			if x == nil {
				x = &nameCounts{}
				byName[l.Name] = x
				order = append(order, x)
			}
			if n := len(x.repeats); n == 0 || x.repeats[n-1] != int32(i) {
				x.repeats, x.counts = append(x.repeats, int32(i)), append(x.counts, 0)
			}
			x.counts[len(x.counts)-1]++
			x.n++
			x.ns += float64(l.NS)
			x.kernel = x.kernel || l.Kernel
		}
	}
	for _, x := range order {
		x.ns /= float64(x.n)
		var alike []int32
		for i, at := range x.repeats {
			if r.isAlike(int(at)) {
				alike = append(alike, x.counts[i])
			}
		}
		slices.Sort(alike)
		if at := (r.alike-1)/2 - (r.alike - len(alike)); at >= 0 { // the count of the other alike repeats is 0
			x.median = alike[at]
		}
	}
	return order
}

// judgeRun judges whether the repeats of a run are periods of the program. explained compares them with a repeat that
// has the median count of each name: it is the share of launches (or of device time, if less) that both have. extra is
// the share of launches or device time beyond the median counts that recurs at equal distances.
func (s *sequence) judgeRun(r nameRun) (explained, extra float64) {
	var n, all, ns, allNS float64
	kinds := s.countNames(r)
	for _, x := range kinds {
		in, launches := 0, 0
		for i, at := range x.repeats {
			if r.isAlike(int(at)) {
				in += int(min(x.counts[i], x.median))
				launches += int(x.counts[i])
			}
		}
		missing := int(x.median)*r.alike - in
		n, all = n+float64(in), all+float64(launches+missing)
		ns, allNS = ns+float64(in)*x.ns, allNS+float64(launches+missing)*x.ns
	}
	if explained = n / all; allNS > 0 {
		explained = min(explained, ns/allNS)
	}
	return explained, s.extraShare(kinds)
}

// extraShare returns the share of launches or device time beyond the median counts that recurs at equal distances of
// two or more repeats. Such launches show that the true period is longer. Copies and fills of a name count only if they
// take mostCopy of the device time or more, because many programs read a number now and then.
func (s *sequence) extraShare(kinds []*nameCounts) (extra float64) {
	n, ns := 0.0, 0.0
	for _, x := range kinds {
		n, ns = n+float64(x.n), ns+float64(x.n)*x.ns
	}
	for _, x := range kinds {
		more, last := 0, int32(-1)
		var gaps []int32
		for i, at := range x.repeats {
			if x.counts[i] <= x.median {
				continue
			}
			if last >= 0 {
				gaps = append(gaps, at-last)
			}
			last = at
			more += int(x.counts[i] - x.median)
		}
		if !recursEvenly(gaps) {
			continue
		}
		time := 0.0
		if ns > 0 {
			time = float64(more) * x.ns / ns
		}
		switch {
		case x.kernel:
			extra += max(float64(more)/n, time)
		case time >= mostCopy:
			extra += time
		}
	}
	return extra
}

// recursEvenly reports whether the median of the distances gaps is two or more repeats and most distances are equal to
// the median.
func recursEvenly(gaps []int32) bool {
	if len(gaps) == 0 {
		return false
	}
	m := medianOf(gaps)
	if m < 2 {
		return false
	}
	tolerance, equal := 0.0, 0
	if m >= looseRepeats {
		tolerance = spread * m
	}
	for _, g := range gaps {
		if math.Abs(float64(g)-m) <= tolerance {
			equal++
		}
	}
	return float64(equal) >= leastEven*float64(len(gaps))
}

// makeSteps makes steps from the repeats of a run that have about median length. It joins several repeats to one step
// if they are shorter than shortestNS. first is the index of s.all[0] among all launches.
func (s *sequence) makeSteps(r nameRun, first int) *Found {
	var took []int64
	for i := range len(r.at) - 1 {
		if !r.isAlike(i) {
			continue
		}
		ns, device := s.all[r.at[i+1]].At-s.all[r.at[i]].At, int64(0)
		for _, l := range s.all[r.at[i]:r.at[i+1]] {
			device += l.NS
		}
		if device >= shortestNS { // the host may run far ahead of the device
			ns = max(ns, device)
		}
		took = append(took, ns)
	}
	f := &Found{Joined: 1}
	if ns := medianOf(took); ns < shortestNS {
		f.Joined = int(max(1, min(math.Ceil(shortestNS/max(ns, 1)), float64(r.alike/minSteps))))
	}
	from, held := 0, 0
	var lengths []int32
	for i := range len(r.at) - 1 {
		if !r.isAlike(i) {
			held = 0
			continue
		}
		if held == 0 {
			from = i
		}
		if held++; held == f.Joined {
			step := Step{int(r.at[from]) + first, int(r.at[i+1]) + first}
			f.Steps = append(f.Steps, step)
			lengths = append(lengths, int32(step.To-step.From))
			held = 0
		}
	}
	if len(lengths) > 0 { // empty if every group of repeats is interrupted
		f.Launches = int(math.Round(medianOf(lengths)))
	}
	return f
}
