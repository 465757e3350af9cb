package view

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Watched has a run's telemetry in printable units. Tracks that best explain a step's time come first. Times are
// seconds since the run began.
type Watched struct {
	Tracks       []WatchedTrack
	From, To     float64 // time covered by the readings
	Left         int     // number of quantities not shown
	Blocks       []WatchedBlock
	Throttled    [][2]float64 // start and end of the times in which a throttling counter rose
	Flagged      []float64    // start times of flagged samples
	FlaggedCount int
	Codes        []string // reasons of flagged samples, each once
}

// WatchedTrack is a quantity in the unit that its title names. The value NaN interrupts the curve.
type WatchedTrack struct {
	Title        string
	TimeS, Value []float64
	Least, Most  float64
}

// WatchedBlock is a block of samples, with or without probes.
type WatchedBlock struct {
	Number, Samples int
	Bare            bool
	From, To        float64
}

const (
	maxTracks   = 6
	maxReadings = 600 // limit of a quantity's readings, and of the flags
	maxBands    = 400
)

// known is a quantity with a title and a unit of its own.
type known struct {
	name, title string
	scale       float64 // factor to the unit of the title
	rate        bool    // a counter: show its slope
}

func knownTracks() []known {
	return []known{
		{"memory_in_use", "allocator: blocks in use (MiB)", 1 << 20, false},
		{"memory_reserved", "allocator: memory reserved (MiB)", 1 << 20, false},
		{"memory_idle", "allocator: reserved but idle (MiB)", 1 << 20, false},
		{"largest_idle_block", "allocator: largest idle block (MiB)", 1 << 20, false},
		{"gpu_power", "power (W)", 1, false},
		{"gpu_sm_clock", "SM clock (MHz)", 1e6, false},
		{"gpu_temperature", "temperature (°C)", 1, false},
		{"gpu_memory_used", "device memory in use (MiB)", 1 << 20, false},
		{"gpu_utilisation", "time with a kernel running (%)", 0.01, false},
		{"gpu_memory_clock", "memory clock (MHz)", 1e6, false},
		{"cpu_frequency", "CPU clock (MHz)", 1e6, false},
		{"process_cpu_time", "CPUs in use (CPU seconds per second)", 1, true},
		{"program_cpu_time", "CPUs in use by the program (CPU seconds per second)", 1, true},
		{"rss", "resident memory (MiB)", 1 << 20, false},
		{"program_rss", "resident memory of the program (MiB)", 1 << 20, false},
		{"input_rate", "input pipeline (MB/s)", 1e6, false},
		{"queue_depth", "batches waiting", 1, false},
		{"driver_allocs", "allocations of the driver per second", 1, true},
		{"driver_frees", "frees of the driver per second", 1, true},
		{"context_switches", "context switches per second", 1, true},
		{"preemptions", "preemptions per second", 1, true},
		{"page_faults", "page faults per second", 1, true},
	}
}

// Telemetry collects the quantities sampled during a run, except those that are always 0.
func Telemetry(r *gpuprof.Run) Watched {
	w := Watched{From: math.Inf(1), To: math.Inf(-1)}
	for _, k := range tracksOf(r) {
		t := k.scaleTrack(r.Telemetry[k.name])
		if !slices.ContainsFunc(t.Value, func(v float64) bool { return gpuprof.IsFinite(v) && v != 0 }) {
			continue
		}
		if len(w.Tracks) == maxTracks {
			w.Left++
			continue
		}
		w.Tracks = append(w.Tracks, t)
		w.From, w.To = min(w.From, slices.Min(t.TimeS)), max(w.To, slices.Max(t.TimeS))
	}
	if !(w.To > w.From) {
		return Watched{}
	}
	w.Throttled = throttledSpans(r)
	w.findBlocks(r)
	return w
}

// tracksOf returns the quantities with a title, then the others by name.
func tracksOf(r *gpuprof.Run) []known {
	out := knownTracks()
	for _, name := range slices.Sorted(maps.Keys(r.Telemetry)) {
		if slices.ContainsFunc(out, func(k known) bool { return k.name == name }) || strings.Contains(name, "throttled") {
			continue
		}
		title := Cut(name, 40)
		if unit := Cut(r.Telemetry[name].Unit, 12); unit != "1" && unit != "" {
			title += " (" + unit + ")"
		}
		out = append(out, known{name, title, 1, false})
	}
	return out
}

// scaleTrack converts the readings, and thins them so that no peak is lost.
func (k known) scaleTrack(t gpuprof.Track) WatchedTrack {
	out := WatchedTrack{Title: k.title, Least: math.Inf(1), Most: math.Inf(-1)}
	for i := range min(len(t.TimeS), len(t.Value)) {
		at, v := t.TimeS[i], float64(t.Value[i])
		if k.rate {
			if i == 0 || !(at > t.TimeS[i-1]) {
				continue
			}
			v = (v - float64(t.Value[i-1])) / (at - t.TimeS[i-1])
		}
		if !gpuprof.IsFinite(at) {
			continue
		}
		if v /= k.scale; !gpuprof.IsFinite(v) {
			v = math.NaN()
		} else {
			out.Least, out.Most = min(out.Least, v), max(out.Most, v)
		}
		out.TimeS, out.Value = append(out.TimeS, at), append(out.Value, v)
	}
	keep := thinPeaks(out.Value, maxReadings)
	for i, at := range keep {
		out.TimeS[i], out.Value[i] = out.TimeS[at], out.Value[at]
	}
	out.TimeS, out.Value = out.TimeS[:len(keep)], out.Value[:len(keep)]
	return out
}

// thinPeaks returns about most indices of v. It divides v into parts, and takes of each the least value, the largest
// and the first gap (NaN).
func thinPeaks(v []float64, most int) []int {
	var out []int
	if len(v) <= most {
		for i := range v {
			out = append(out, i)
		}
		return out
	}
	for k := range most / 2 {
		from, to := k*len(v)/(most/2), (k+1)*len(v)/(most/2)
		lo, hi, gap := from, from, -1
		for i := from; i < to; i++ {
			switch {
			case math.IsNaN(v[i]):
				if gap < 0 {
					gap = i
				}
			case math.IsNaN(v[lo]) || v[i] < v[lo]:
				lo = i
			}
			if !math.IsNaN(v[i]) && (math.IsNaN(v[hi]) || v[i] > v[hi]) {
				hi = i
			}
		}
		part := []int{lo, hi}
		if gap >= 0 {
			part = append(part, gap)
		}
		slices.Sort(part)
		out = append(out, slices.Compact(part)...)
	}
	return out
}

// findBlocks collects the flagged samples and the times of the blocks of samples. The end of a block's last sample is
// not recorded; if the next block follows soon, the start of that block counts as the end.
func (w *Watched) findBlocks(r *gpuprof.Run) {
	codes := map[string]bool{}
	for i := 0; i < len(r.Order); {
		from := i
		for i++; i < len(r.Order) && r.Order[i].Block == r.Order[from].Block && r.Order[i].Side == r.Order[from].Side; i++ {
		}
		for k := from; k < i && k < len(r.Flags); k++ {
			if t := r.Order[k].StartS; len(r.Flags[k]) > 0 && t >= w.From && t <= w.To {
				if w.FlaggedCount++; len(w.Flagged) < maxReadings {
					w.Flagged = append(w.Flagged, t)
				}
			}
		}
		start, end := r.Order[from].StartS, r.Order[i-1].StartS
		if i < len(r.Order) && r.Order[i].Block == r.Order[from].Block+1 {
			end = max(end, min(r.Order[i].StartS, end+(end-start)))
		}
		if start <= w.To && end >= w.From && len(w.Blocks) < maxBands {
			w.Blocks = append(w.Blocks, WatchedBlock{Number: r.Order[from].Block, Samples: i - from, Bare: r.Order[from].Side == gpuprof.SideBare, From: start, To: end})
		}
	}
	for _, given := range r.Flags {
		for _, c := range given {
			codes[c] = true
		}
	}
	w.Codes = slices.Sorted(maps.Keys(codes))
}

// throttledSpans returns the times between two readings in which a throttling counter increased.
func throttledSpans(r *gpuprof.Run) [][2]float64 {
	var out [][2]float64
	for _, name := range slices.Sorted(maps.Keys(r.Telemetry)) {
		t := r.Telemetry[name]
		if !strings.Contains(name, "throttled") {
			continue
		}
		for i := 1; i < min(len(t.TimeS), len(t.Value)) && len(out) < maxBands; i++ {
			if !(t.Value[i] > t.Value[i-1]) || !(t.TimeS[i] > t.TimeS[i-1]) || !gpuprof.IsFinite(t.TimeS[i]-t.TimeS[i-1]) {
				continue
			}
			if n := len(out); n > 0 && out[n-1][1] == t.TimeS[i-1] {
				out[n-1][1] = t.TimeS[i]
				continue
			}
			out = append(out, [2]float64{t.TimeS[i-1], t.TimeS[i]})
		}
	}
	return out
}
