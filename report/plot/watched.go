package plot

import "github.com/gpuprof/gpuprof"

// Panel is one quantity that was watched during a run, scaled to the unit its
// title names. What is not finite was not known.
type Panel struct {
	Title        string
	TimeS, Value []float64
}

// Watched is a run's telemetry, worded and in the order of what explains a
// step's time best.
type Watched struct {
	Panels    []Panel
	Left      int          // quantities that found no room
	Throttled [][2]float64 // spans of time, in seconds of the run, that were
	Codes     []string     // reason codes of flagged samples, once each
}

// Telemetry is what the telemetry picture shows, for renderers that draw it
// themselves.
func Telemetry(r *gpuprof.Run) Watched {
	panels, left := panelsOf(r)
	w := Watched{Left: left, Throttled: throttledSpans(r), Codes: flagCodes(r)}
	for _, p := range panels {
		w.Panels = append(w.Panels, Panel{p.title, p.at, p.v})
	}
	return w
}
