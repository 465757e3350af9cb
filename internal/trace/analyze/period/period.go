// Package period finds the steps of a program in the order of what it launches: a training
// step, a decoded token or a time step of a simulation launches about the same work as the
// one before.
package period

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Launch is one launch, in the order of the host's calls.
type Launch struct {
	At     int64 // when the host called, ns
	NS     int64 // of the device, ns
	Name   int32 // equal work has equal numbers, from 0 on
	Kernel bool  // and no copy or fill
}

// Step is one repeat: the launches from From to before To.
type Step struct{ From, To int }

// Found is the period of a sequence.
type Found struct {
	Steps    []Step
	Launches int // of the median step
	// Joined is how many repeats of the order one step has, of programs that repeat more
	// often than once a millisecond.
	Joined int
}

const (
	minRepeats = 4     // alike distances wanted
	spread     = 0.2   // a distance in launches may differ from the median so much
	alike      = 0.8   // part of all distances that must not differ more
	covers     = 0.8   // of the candidates that recur as often, those that cover so much of what the longest does
	same       = 0.9   // part of the launches and of the device's time that the median repeat explains
	rare       = 0.6   // part of what recurs beyond it that must do so at equal distances
	mostCopy   = 0.02  // of the device's time, for copies and fills beyond the median repeat
	mostExtra  = 0.003 // of launches or time beyond it, from which a longer period is meant
	loose      = 5     // repeats, from which distances between what recurs beyond may differ by spread
	shortestNS = 1e6   // of a step
	minSteps   = 3     // left by joining repeats to a step
)

// MostLaunches is how many launches are looked at, the last ones: more than a few steps of any program.
const MostLaunches = 1 << 19

// Find returns the period of a program's launches; nil where there is none.
//
// A candidate is a run of names that occurs at about equal distances. The shortest period is
// taken whose median repeat explains nearly all launches and device time, and beyond which
// nothing recurs at equal distances: layers within a step leave the rest of the step over.
// What precedes the first equal distance is warm-up.
func Find(all []Launch) *Found {
	first := max(0, len(all)-MostLaunches)
	s := &sequence{all: all[first:]}
	best := s.candidates()
	for _, c := range slices.Backward(slices.Sorted(maps.Keys(best))) {
		r := best[c]
		inside, whole := 0, len(s.all)-int(r.at[0])
		for i := range len(r.at) - 1 {
			if r.alike(i) {
				inside += int(r.at[i+1] - r.at[i])
			}
		}
		if inside*2 < whole {
			continue
		}
		if explained, extra := s.judge(r); explained < same || extra >= mostExtra {
			continue
		}
		// Repeats that are interrupted before they make a step are parts of one.
		if f := s.found(r, first); len(f.Steps)*f.Launches*2 >= whole {
			return f
		}
	}
	return nil
}

// sequence is what is looked at.
type sequence struct {
	all   []Launch
	waits []int64 // reused
}

// run is where a run of names occurs, without what comes before the first and after the last
// distance that is like the median.
type run struct {
	at     []int32
	median float64 // distance, launches
	good   int     // distances like it
}

func (r *run) alike(i int) bool {
	return math.Abs(float64(r.at[i+1]-r.at[i])-r.median) <= max(1, spread*r.median)
}

func (r *run) covered() int32 { return r.at[len(r.at)-1] - r.at[0] }

// steady is the run of names that occurs at these places; false where it does not at equal distances.
func steady(at []int32) (run, bool) {
	if len(at) < minRepeats+1 {
		return run{}, false
	}
	gaps := make([]int32, len(at)-1)
	for i := range gaps {
		gaps[i] = at[i+1] - at[i]
	}
	r := run{at: at, median: middle(gaps)}
	lo, hi := 0, len(at)-1
	for lo < hi && !r.alike(lo) {
		lo++
	}
	for hi > lo && !r.alike(hi-1) {
		hi--
	}
	r.at = at[lo : hi+1]
	for i := range hi - lo {
		if r.alike(i) {
			r.good++
		}
	}
	return r, r.good >= minRepeats && float64(r.good) >= alike*float64(hi-lo)
}

// middle is the median, between the middle ones of an even number. It sorts.
func middle[T int32 | int64](v []T) float64 {
	slices.Sort(v)
	n := len(v)
	return (float64(v[(n-1)/2]) + float64(v[n/2])) / 2
}

// candidates are the runs of names that recur steadily, by how often: of those that recur
// equally often and cover about as much, the one that the host comes to after its longest pause.
func (s *sequence) candidates() map[int]run {
	best := map[int]run{}
	wait := map[int]float64{}
	s.eachLevel(func(places func(yield func([]int32))) {
		by := map[int][]run{}
		places(func(at []int32) {
			if r, ok := steady(at); ok {
				by[r.good] = append(by[r.good], r)
			}
		})
		for n, runs := range by {
			most := int32(0)
			for _, r := range runs {
				most = max(most, r.covered())
			}
			pause, chosen := -1.0, run{}
			for _, r := range runs {
				if float64(r.covered()) >= covers*float64(most) {
					if w := s.pause(r); w > pause {
						pause, chosen = w, r
					}
				}
			}
			old, ok := best[n]
			if !ok || cmp.Or(cmp.Compare(chosen.covered(), old.covered()), cmp.Compare(pause, wait[n])) > 0 {
				best[n], wait[n] = chosen, pause
			}
		}
	})
	return best
}

// pause is the median time between the launch before a run of names and its first.
func (s *sequence) pause(r run) float64 {
	s.waits = s.waits[:0]
	for _, p := range r.at {
		if p == 0 {
			s.waits = append(s.waits, 0)
			continue
		}
		s.waits = append(s.waits, s.all[p].At-s.all[p-1].At)
	}
	return middle(s.waits)
}

// longest is the most names of a run.
const longest = 21

// eachLevel hands over, for runs of 1, 2, 3, 5, 8, 13 and 21 names, where each of them that
// occurs often enough does, in the order of their first places. A run is told by two shorter ones.
func (s *sequence) eachLevel(level func(places func(yield func([]int32)))) {
	names := make([]int32, len(s.all))
	for i := range s.all {
		names[i] = s.all[i].Name
	}
	ids, kinds := numbered(names)
	before, shorter := ids, 1
	for length := 1; length*minRepeats <= len(s.all); {
		level(func(yield func([]int32)) {
			for _, places := range placesOf(ids, kinds) {
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
		ids, kinds = numbered(joined)
	}
}

// numbered gives equal values equal numbers, from 0 on in the order of their first places.
func numbered[T int32 | int64](v []T) (ids []int32, kinds int) {
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

// placesOf is where each number is.
func placesOf(ids []int32, kinds int) [][]int32 {
	count := make([]int32, kinds)
	for _, id := range ids {
		count[id]++
	}
	room := make([]int32, len(ids))
	out := make([][]int32, kinds)
	for id, n := range count {
		out[id], room = room[:0:n], room[n:]
	}
	for i, id := range ids {
		out[id] = append(out[id], int32(i))
	}
	return out
}
