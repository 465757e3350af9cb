// Package period finds the steps of a program from the order of its launches: a training step, a decoded token or a
// time step of a simulation launches about the same work as the previous one.
package period

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Launch is one launch, in the order of the host's calls.
type Launch struct {
	At     int64 // start of the call, ns
	NS     int64 // device time, ns
	Name   int32 // equal for equal work, counted from 0
	Kernel bool  // false for a copy or fill
}

// Step is one step: the launches [From, To).
type Step struct{ From, To int }

// Found is the period of a sequence of launches.
type Found struct {
	Steps    []Step
	Launches int // in the median step
	// Joined is the number of repeats per step. It is more than one if a repeat takes less than a millisecond on the
	// host and on the device.
	Joined int
}

const (
	minRepeats     = 4     // least number of distances between repeats of a candidate that are close to the median
	spread         = 0.2   // share of the median distance by which a close distance may differ from it
	leastAlike     = 0.8   // least share of distances that are close to the median
	leastCovered   = 0.8   // least launches of a candidate, as a share of the widest candidate that recurs as often
	leastExplained = 0.9   // least share of launches and of device time that the median repeat explains (judgeRun)
	leastEven      = 0.6   // least share of extra launches that recur at equal distances
	mostCopy       = 0.02  // extra copies and fills count from this share of the device time on
	mostExtra      = 0.003 // with this share of extra launches or time, the true period is longer
	looseRepeats   = 5     // distances between extra launches of this many repeats or more may differ by spread
	shortestNS     = 1e6   // shortest step, ns
	minSteps       = 3     // least number of steps after joining repeats
)

// MostLaunches is the number of launches that Find reads, counted from the end; they cover a few steps of any program.
const MostLaunches = 1 << 19

// Find returns the period of a program's launches; nil without one.
//
// A candidate is a run of consecutive names that occurs at about equal distances. Find takes the shortest period whose
// median repeat explains nearly all launches and device time, if no other launches recur at equal distances. This
// excludes layers, whose repeats leave the rest of the step unexplained. Launches before the first repeat are warm-up.
func Find(all []Launch) *Found {
	first := max(0, len(all)-MostLaunches)
	s := &sequence{all: all[first:]}
	best := s.findCandidates()
	for _, c := range slices.Backward(slices.Sorted(maps.Keys(best))) {
		r := best[c]
		inside, whole := 0, len(s.all)-int(r.at[0])
		for i := range len(r.at) - 1 {
			if r.isAlike(i) {
				inside += int(r.at[i+1] - r.at[i])
			}
		}
		if inside*2 < whole {
			continue
		}
		if explained, extra := s.judgeRun(r); explained < leastExplained || extra >= mostExtra {
			continue
		}
		// The steps must cover half of the launches. If they do not, other launches interrupt the repeats, which are parts
		// of a longer step.
		if f := s.makeSteps(r, first); len(f.Steps)*f.Launches*2 >= whole {
			return f
		}
	}
	return nil
}

type sequence struct {
	all   []Launch
	waits []int64 // buffer of medianPause
}

// nameRun is a run of consecutive names that recurs; at holds its start positions. The first and the last distance
// between the positions are close to the median distance.
type nameRun struct {
	at     []int32
	median float64 // median distance, launches
	alike  int     // number of distances that are close to the median (isAlike)
}

// isAlike reports whether the distance from the i-th start to the next one is close to the median.
func (r *nameRun) isAlike(i int) bool {
	return math.Abs(float64(r.at[i+1]-r.at[i])-r.median) <= max(1, spread*r.median)
}

func (r *nameRun) coveredLaunches() int32 { return r.at[len(r.at)-1] - r.at[0] }

// newSteadyRun returns the run of names that starts at the positions at; false if these are not at about equal
// distances.
func newSteadyRun(at []int32) (nameRun, bool) {
	if len(at) < minRepeats+1 {
		return nameRun{}, false
	}
	gaps := make([]int32, len(at)-1)
	for i := range gaps {
		gaps[i] = at[i+1] - at[i]
	}
	r := nameRun{at: at, median: medianOf(gaps)}
	lo, hi := 0, len(at)-1
	for lo < hi && !r.isAlike(lo) {
		lo++
	}
	for hi > lo && !r.isAlike(hi-1) {
		hi--
	}
	r.at = at[lo : hi+1]
	for i := range hi - lo {
		if r.isAlike(i) {
			r.alike++
		}
	}
	return r, r.alike >= minRepeats && float64(r.alike) >= leastAlike*float64(hi-lo)
}

// medianOf sorts v and returns its median; for an even number of values, the mean of the middle two.
func medianOf[T int32 | int64](v []T) float64 {
	slices.Sort(v)
	n := len(v)
	return (float64(v[(n-1)/2]) + float64(v[n/2])) / 2
}

// findCandidates returns, by number of repeats, the runs of names that recur at about equal distances. Among runs that
// recur equally often and cover about as many launches, it takes the run with the longest pause of the host before it.
func (s *sequence) findCandidates() map[int]nameRun {
	best := map[int]nameRun{}
	wait := map[int]float64{}
	s.eachLevel(func(places func(yield func([]int32))) {
		by := map[int][]nameRun{}
		places(func(at []int32) {
			if r, ok := newSteadyRun(at); ok {
				by[r.alike] = append(by[r.alike], r)
			}
		})
		for n, runs := range by {
			most := int32(0)
			for _, r := range runs {
				most = max(most, r.coveredLaunches())
			}
			pause, chosen := -1.0, nameRun{}
			for _, r := range runs {
				if float64(r.coveredLaunches()) >= leastCovered*float64(most) {
					if w := s.medianPause(r); w > pause {
						pause, chosen = w, r
					}
				}
			}
			old, ok := best[n]
			if !ok || cmp.Or(cmp.Compare(chosen.coveredLaunches(), old.coveredLaunches()), cmp.Compare(pause, wait[n])) > 0 {
				best[n], wait[n] = chosen, pause
			}
		}
	})
	return best
}

// medianPause returns the median time, ns, between a run of names and the launch before it.
func (s *sequence) medianPause(r nameRun) float64 {
	s.waits = s.waits[:0]
	for _, p := range r.at {
		if p == 0 {
			s.waits = append(s.waits, 0)
			continue
		}
		s.waits = append(s.waits, s.all[p].At-s.all[p-1].At)
	}
	return medianOf(s.waits)
}

// longest is the largest number of launches in a run of names that eachLevel examines.
const longest = 21

// eachLevel calls level for runs of 1, 2, 3, 5, 8, 13 and 21 launches. It passes the start positions of each run of
// names that occurs more than minRepeats times, in the order of first positions. The id of a run combines the ids of
// two shorter runs, so that comparing runs costs the same at every length.
func (s *sequence) eachLevel(level func(places func(yield func([]int32)))) {
	names := make([]int32, len(s.all))
	for i := range s.all {
		names[i] = s.all[i].Name
	}
	ids, kinds := numberValues(names)
	before, shorter := ids, 1
	for length := 1; length*minRepeats <= len(s.all); {
		level(func(yield func([]int32)) {
			for _, places := range groupPositions(ids, kinds) {
				if len(places) > minRepeats {
					yield(places)
				}
			}
		})
		longer := length + shorter
		if longer > min(longest, len(s.all)) {
			return
		}
		joined := make([]int64, len(s.all)-longer+1)
		for i := range joined {
			joined[i] = int64(ids[i])<<32 | int64(before[i+length])
		}
		before, shorter, length = ids, length, longer
		ids, kinds = numberValues(joined)
	}
}

// numberValues assigns equal numbers to equal values, from 0 on in the order of their first positions.
func numberValues[T int32 | int64](v []T) (ids []int32, kinds int) {
	known := map[T]int32{}
	ids = make([]int32, len(v))
	for i, x := range v {
		id, ok := known[x]
		if !ok {
			id = int32(len(known))
			known[x] = id
		}
		ids[i] = id
	}
	return ids, len(known)
}

// groupPositions returns the positions of each id.
func groupPositions(ids []int32, kinds int) [][]int32 {
	count := make([]int32, kinds)
	for _, id := range ids {
		count[id]++
	}
	buffer := make([]int32, len(ids))
	out := make([][]int32, kinds)
	for id, n := range count {
		out[id], buffer = buffer[:0:n], buffer[n:]
	}
	for i, id := range ids {
		out[id] = append(out[id], int32(i))
	}
	return out
}
