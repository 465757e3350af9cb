package plot

import (
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// known is a telemetry quantity that a picture words and scales.
type known struct {
	name, title string
	scale       float64 // of the shown unit
	rate        bool    // the track counts up; its slope says more
}

// knownTracks are in the order of what explains a step's time best.
func knownTracks() []known {
	return []known{
		{"gpu_power", "power (W)", 1, false},
		{"gpu_sm_clock", "SM clock (MHz)", 1e6, false},
		{"gpu_temperature", "temperature (°C)", 1, false},
		{"gpu_memory_used", "device memory in use (MiB)", 1 << 20, false},
		{"gpu_utilisation", "time with a kernel running (%)", 0.01, false},
		{"gpu_memory_clock", "memory clock (MHz)", 1e6, false},
		{"cpu_frequency", "CPU clock (MHz)", 1e6, false},
		{"process_cpu_time", "CPUs in use (CPU seconds a second)", 1, true},
		{"program_cpu_time", "CPUs in use by the program (CPU seconds a second)", 1, true},
		{"rss", "resident memory (MiB)", 1 << 20, false},
		{"program_rss", "resident memory of the program (MiB)", 1 << 20, false},
		{"input_rate", "input pipeline (MB/s)", 1e6, false},
		{"queue_depth", "batches waiting", 1, false},
		{"context_switches", "context switches a second", 1, true},
		{"preemptions", "preemptions a second", 1, true},
		{"page_faults", "page faults a second", 1, true},
	}
}

const (
	maxPanels   = 6
	maxReadings = 4000 // drawn of a track
	maxBands    = 400
)

// telemetry draws the quantities watched during the run one below the other,
// with the blocks of samples behind them and what disturbed them.
func telemetry(runs []*gpuprof.Run) (*Figure, error) {
	r := runs[0]
	f := newFigure("telemetry", runs)
	panels, left := panelsOf(r)
	if len(panels) == 0 {
		return f.empty(r, "no telemetry was recorded"), nil
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, p := range panels {
		for _, t := range p.at {
			lo, hi = min(lo, t), max(hi, t)
		}
	}
	pad := max((hi-lo)*0.01, 1e-9)
	lo, hi = lo-pad, hi+pad
	blocks, flagged := blocksOf(r, lo, hi)
	throttled := throttledSpans(r)
	for i, p := range panels {
		f.plots = append(f.plots, p.plot(lo, hi, i == len(panels)-1, blocks, throttled, flagged))
	}
	f.legend = []entry{{"reading", palette[0]}}
	if len(blocks) > 0 {
		f.legend = append(f.legend, entry{"samples were taken (shades change with the block)", bandTones[0]})
	}
	if len(throttled) > 0 {
		f.legend = append(f.legend, entry{"throttled", throttleTone})
	}
	if len(flagged) > 0 {
		f.legend = append(f.legend, entry{"flagged sample: " + view.Cut(strings.Join(flagCodes(r), ", "), 60), palette[3]})
	}
	if left > 0 {
		f.remark(view.Plural(left, "more quantity"))
		f.note = strings.Replace(f.note, "quantitys", "quantities", 1) + " in the run file"
	}
	return f, nil
}

var (
	bandTones    = [2]color.NRGBA{{0xdd, 0xe7, 0xf0, 0xff}, {0xec, 0xf2, 0xf7, 0xff}}
	throttleTone = color.NRGBA{0xf6, 0xd3, 0xb5, 0xff}
)

// panel is one quantity; NaN in v breaks its line.
type panel struct {
	title string
	at, v []float64
}

// panelsOf are the quantities worth a panel, and how many more there are. What
// never changes from zero is not one.
func panelsOf(r *gpuprof.Run) (out []panel, left int) {
	order := knownTracks()
	for _, name := range slices.Sorted(maps.Keys(r.Telemetry)) {
		if !slices.ContainsFunc(order, func(k known) bool { return k.name == name }) && !strings.Contains(name, "throttled") {
			unit := view.Cut(r.Telemetry[name].Unit, 12)
			title := view.Cut(name, 40)
			if unit != "1" && unit != "" {
				title += " (" + unit + ")"
			}
			order = append(order, known{name, title, 1, false})
		}
	}
	for _, k := range order {
		p := panelOf(k, r.Telemetry[k.name])
		if !slices.ContainsFunc(p.v, func(v float64) bool { return view.Finite(v) && v != 0 }) {
			continue
		}
		if len(out) == maxPanels {
			left++
			continue
		}
		out = append(out, p)
	}
	return out, left
}

func panelOf(k known, t gpuprof.Track) panel {
	p := panel{title: k.title}
	n := min(len(t.TimeS), len(t.Value))
	stride := max(1, n/maxReadings)
	for i := 0; i < n; i += stride {
		at, v := t.TimeS[i], float64(t.Value[i])
		if k.rate {
			if i < stride {
				continue
			}
			dt := at - t.TimeS[i-stride]
			if v = (v - float64(t.Value[i-stride])) / dt; !(dt > 0) {
				continue
			}
		}
		if !view.Finite(at) {
			continue
		}
		// A gap that the stride steps over stays a gap.
		gap := slices.ContainsFunc(t.Value[max(0, i-stride+1):i+1], func(v gpuprof.Number) bool { return !view.Finite(float64(v)) })
		if gap || !view.Finite(v/k.scale) {
			v = math.NaN()
		}
		p.at, p.v = append(p.at, at), append(p.v, v/k.scale)
	}
	return p
}

// plot draws one panel; only the last labels the time.
func (p panel) plot(lo, hi float64, last bool, blocks []rect, throttled [][2]float64, flagged []float64) *gplot.Plot {
	var finite []float64
	for _, v := range p.v {
		if view.Finite(v) {
			finite = append(finite, v)
		}
	}
	g := newPlot("", "")
	bottom, top := slices.Min(finite), slices.Max(finite)
	if bottom > 0 && bottom < 0.5*top {
		bottom = 0 // what falls that low is read best against nothing
	}
	pad := max((top-bottom)*0.12, math.Abs(top)*0.01, 1e-9)
	g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = lo, hi, bottom-pad, top+pad
	if bottom == 0 {
		g.Y.Min = 0
	}
	g.Y.Tick.Marker = few{}
	g.Title.Text = " " // room for the text below, which a title would centre
	g.Title.TextStyle.Font.Size, g.Title.Padding = 10, 0
	marks := gplot.Ticker(nice{})
	if last {
		g.X.Label.Text = "time since the run began (s)"
	} else {
		g.X.Tick.Marker, g.X.Tick.Length, g.X.Padding = unlabelled{}, 0, 0
	}
	sh := &shapes{}
	for _, b := range blocks {
		b.y0, b.y1 = g.Y.Min, g.Y.Max
		sh.rects = append(sh.rects, b)
	}
	for _, t := range throttled {
		sh.rects = append(sh.rects, rect{x0: t[0], x1: t[1], y0: g.Y.Min, y1: g.Y.Max, fill: throttleTone})
	}
	for _, t := range flagged {
		sh.segment(t, g.Y.Max, t, g.Y.Max-(g.Y.Max-g.Y.Min)*0.12, palette[3], 1.2)
	}
	sh.lines = append(sh.lines, p.lines()...)
	sh.texts = append(sh.texts, label{x: lo, y: g.Y.Max, dy: 8, text: p.title, color: ink})
	back := &shapes{rects: sh.rects}
	sh.rects = nil
	g.Add(back, grid{marks}, sh)
	if len(finite) < 40 {
		l := line{}
		for i, v := range p.v {
			if view.Finite(v) {
				l.pts = append(l.pts, vg.Point{X: vg.Length(p.at[i]), Y: vg.Length(v)})
			}
		}
		addGlyphs(g, l, palette[0], 2)
	}
	return g
}

// lines are broken where a reading is missing.
func (p panel) lines() []line {
	var out []line
	cur := line{color: palette[0], width: 1.4}
	for i, v := range p.v {
		if !view.Finite(v) {
			out, cur.pts = append(out, cur), nil
			continue
		}
		cur.pts = append(cur.pts, vg.Point{X: vg.Length(p.at[i]), Y: vg.Length(v)})
	}
	return slices.DeleteFunc(append(out, cur), func(l line) bool { return len(l.pts) < 2 })
}

// blocksOf are the spans of the blocks of samples between lo and hi, and when
// flagged samples began.
func blocksOf(r *gpuprof.Run, lo, hi float64) (bands []rect, flagged []float64) {
	for i, o := range r.Order {
		if !(o.StartS >= lo && o.StartS <= hi) {
			continue
		}
		if i < len(r.Flags) && len(r.Flags[i]) > 0 && len(flagged) < maxReadings {
			flagged = append(flagged, o.StartS)
		}
		if i > 0 && len(bands) > 0 && r.Order[i-1].Block == o.Block {
			bands[len(bands)-1].x1 = o.StartS
			continue
		}
		if n := len(bands); n > 0 && bands[n-1].x1 < o.StartS && bands[n-1].x1 == bands[n-1].x0 {
			bands[n-1].x1 = o.StartS // of one sample, which ends where the next begins
		}
		if len(bands) < maxBands {
			bands = append(bands, rect{x0: o.StartS, x1: o.StartS, fill: bandTones[o.Block&1]})
		}
	}
	return bands, flagged
}

// throttledSpans are the times between two readings in which a counter of
// throttling went up.
func throttledSpans(r *gpuprof.Run) [][2]float64 {
	var out [][2]float64
	for _, name := range slices.Sorted(maps.Keys(r.Telemetry)) {
		t := r.Telemetry[name]
		if !strings.Contains(name, "throttled") {
			continue
		}
		for i := 1; i < min(len(t.TimeS), len(t.Value)) && len(out) < maxBands; i++ {
			if t.Value[i] > t.Value[i-1] && t.TimeS[i] > t.TimeS[i-1] && view.Finite(t.TimeS[i]-t.TimeS[i-1]) {
				if n := len(out); n > 0 && out[n-1][1] == t.TimeS[i-1] {
					out[n-1][1] = t.TimeS[i]
					continue
				}
				out = append(out, [2]float64{t.TimeS[i-1], t.TimeS[i]})
			}
		}
	}
	return out
}

func flagCodes(r *gpuprof.Run) []string {
	seen := map[string]bool{}
	for _, codes := range r.Flags {
		for _, c := range codes {
			seen[c] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
