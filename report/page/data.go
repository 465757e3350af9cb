package page

import (
	"fmt"
	"io"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of the samples that a page embeds, over all series: readable JSON up to plainSamples, compressed JSON of about
// 12 bytes per sample up to packedSamples. Above, every series is thinned, and the page points to the run.json with all
// samples.
const (
	plainSamples  = 20_000
	packedSamples = 80_000
)

// dataOf returns the runs as a page embeds them.
func dataOf(runs []*gpuprof.Run) Data {
	total := 0
	for _, r := range runs {
		total += countSamples(r)
	}
	d := Data{Name: "run.json", Pack: total > plainSamples, Note: "It holds every sample.", Encode: func(w io.Writer) error { return document.EncodeRuns(w, runs...) }}
	if total <= packedSamples {
		return d
	}
	stride := (total + packedSamples - 1) / packedSamples
	d.Note = fmt.Sprintf("It holds one sample of every %d in each series, and the summaries of all %d; keep run.json itself for the rest.", stride, total)
	d.Encode = func(w io.Writer) error {
		var kept []*gpuprof.Run
		for _, r := range runs {
			kept = append(kept, thinRun(r, stride))
		}
		return document.EncodeRuns(w, kept...)
	}
	return d
}

// pointLimit limits the samples drawn of one series, so that a page's charts take a few hundred kilobytes.
func pointLimit(runs []*gpuprof.Run) int {
	const all, most, least = 24_000, 2000, 50
	series := 0
	for _, r := range runs {
		series += 1 + len(view.Stages(r))
	}
	return min(max(all/max(series, 1), least), most)
}

func eachSeries(r *gpuprof.Run, visit func(**gpuprof.Series)) {
	visit(&r.Step)
	visit(&r.BareStep)
	visit(&r.ProbedStep)
	visit(&r.EnergyStep)
	if r.Throughput != nil {
		visit(&r.Throughput.Series)
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		visit(&s.Device)
		visit(&s.Host)
		visit(&s.Exposed)
	}
}

func countSamples(r *gpuprof.Run) int {
	n := 2*len(r.Order) + len(r.Flags)
	eachSeries(r, func(s **gpuprof.Series) { n += (*s).N() })
	for _, t := range r.Telemetry {
		n += 2 * len(t.Value)
	}
	return n
}

// thinRun copies a run with every stride-th sample of each series, and a warning that the copy is not complete.
func thinRun(r *gpuprof.Run, stride int) *gpuprof.Run {
	out := *r
	out.Stages = slices.Clone(r.Stages)
	if r.Throughput != nil {
		t := *r.Throughput
		out.Throughput = &t
	}
	eachSeries(&out, func(s **gpuprof.Series) {
		if *s == nil {
			return
		}
		c := **s
		c.Runs = make([][]float64, len((*s).Runs))
		for i, run := range (*s).Runs {
			c.Runs[i] = everyNth(run, stride)
		}
		*s = &c
	})
	out.Order, out.Flags = everyNth(r.Order, stride), everyNth(r.Flags, stride)
	out.Telemetry = map[string]gpuprof.Track{}
	for name, t := range r.Telemetry {
		out.Telemetry[name] = gpuprof.Track{Unit: t.Unit, TimeS: everyNth(t.TimeS, stride), Value: everyNth(t.Value, stride)}
	}
	out.Warnings = append(slices.Clone(r.Warnings), gpuprof.Warning{Code: "thinned",
		Text: fmt.Sprintf("this copy holds one sample of every %d; the summaries are of all", stride), Fix: "use the run.json that the report was made from"})
	return &out
}

func everyNth[T any](xs []T, stride int) []T {
	var out []T
	for i := 0; i < len(xs); i += stride {
		out = append(out, xs[i])
	}
	return out
}
