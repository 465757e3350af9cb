package html

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// How much raw data a page carries, by the number of samples over all series.
// Up to plainSamples it is JSON that can be read in the page's source; up to
// packedSamples it is gzip in base64, about 12 bytes a sample; beyond that
// every series is thinned to fit, and the page says so: the run.json beside
// it is the place for the rest.
const (
	plainSamples  = 20_000
	packedSamples = 80_000
	maxDataBytes  = 1_250_000
)

// embed puts the runs' data into the page.
func (p *pageView) embed(runs []*gpuprof.Run) {
	total := 0
	for _, r := range runs {
		total += countSamples(r)
	}
	p.FileName = "run.json"
	kept, note := runs, "It holds every sample."
	if total > packedSamples {
		stride := (total + packedSamples - 1) / packedSamples
		kept = nil
		for _, r := range runs {
			kept = append(kept, thinned(r, stride))
		}
		note = fmt.Sprintf("It holds one sample of every %d in each series, and the summaries of all %d; keep run.json itself for the rest.", stride, total)
	}
	text, err := encode(kept)
	if err != nil {
		p.DataNote = "The data is not in this page: the run holds numbers that JSON cannot express."
		return
	}
	if total > plainSamples || len(text) > maxDataBytes/2 {
		p.Compressed, p.FileName = true, "run.json.gz"
		text = pack(text)
	}
	if len(text) > maxDataBytes {
		p.DataNote = "The data is not in this page: it would take " + gpuprof.FormatBytes(float64(len(text))) + ". Keep run.json beside it."
		return
	}
	// encoding/json escapes <, > and &, so no text can end the element.
	p.Data, p.DataNote = template.JS(text), note
}

func encode(runs []*gpuprof.Run) (string, error) {
	var b bytes.Buffer
	err := gpuprof.EncodeRuns(&b, runs...)
	return b.String(), err
}

// pack wraps gzip data in a JSON object that names its encoding.
func pack(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	// Writing to memory cannot fail.
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	out, _ := json.Marshal(map[string]string{"encoding": "gzip+base64", "data": base64.StdEncoding.EncodeToString(b.Bytes())})
	return string(out)
}

// eachSeries visits every series of a run.
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

// thinned copies a run with every stride-th sample of each series. The copy
// warns of itself, so that it cannot pass for the whole.
func thinned(r *gpuprof.Run, stride int) *gpuprof.Run {
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
			c.Runs[i] = every(run, stride)
		}
		*s = &c
	})
	out.Order, out.Flags = every(r.Order, stride), every(r.Flags, stride)
	out.Telemetry = map[string]gpuprof.Track{}
	for name, t := range r.Telemetry {
		out.Telemetry[name] = gpuprof.Track{Unit: t.Unit, TimeS: every(t.TimeS, stride), Value: every(t.Value, stride)}
	}
	out.Warnings = append(slices.Clone(r.Warnings), gpuprof.Warning{Code: "thinned",
		Text: fmt.Sprintf("this copy holds one sample of every %d; the summaries are of all", stride), Fix: "use the run.json that the report was made from"})
	return &out
}

func every[T any](xs []T, stride int) []T {
	var out []T
	for i := 0; i < len(xs); i += stride {
		out = append(out, xs[i])
	}
	return out
}

// HasData reports whether there is something to save.
func (p *pageView) HasData() bool { return p.Data != "" }

// drawn says how many of a chart's samples are shown.
func drawn(spreads []view.Spread) string {
	kept, total := 0, 0
	for _, s := range spreads {
		kept, total = kept+s.Kept, total+s.Total
	}
	if kept == total {
		return fmt.Sprintf("All %d samples are drawn.", total)
	}
	return fmt.Sprintf("%d of %d samples are drawn, evenly spaced in time, with the extremes.", kept, total)
}
