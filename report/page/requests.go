package page

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// requestsOf describes a service under load from its callers' side.
func requestsOf(r *gpuprof.Run, id string) Section {
	q := r.Requests
	if q == nil {
		return Section{}
	}
	lines := Lines{Lines: []Line{{Label: "requests", Value: outcomeText(q), Note: rateText(q)}}}
	total := q.Sum()
	if total.Seconds > 0 && q.Told() > 0 {
		lines.Lines = append(lines.Lines, Line{Label: "goodput", Value: gpuprof.FormatSI(q.Goodput, "requests/s"), Note: "answered within " + gpuprof.FormatSeconds(q.SLO)})
	}
	if b := batchText(total); b != "" {
		lines.Lines = append(lines.Lines, Line{Label: "batches", Value: b})
	}
	lines.Lines = append(lines.Lines, outsideLines(q)...)
	if first := q.Processes[0].FirstS; first > 0 {
		lines.Lines = append(lines.Lines, Line{Label: "first answer", Value: gpuprof.FormatSeconds(first), Note: "alone in its batch, when the workload was opened; no part of the load"})
	}
	out := Section{ID: id + "requests", Heading: "Requests under load", Blocks: []Block{lines, latencyTable(q)}}
	if why := omissionText(q); why != "" {
		out.Blocks = append(out.Blocks, Text{S: why, Tone: Unsure, In: HTML | Markdown})
	}
	out.Blocks = append(out.Blocks, Chart{ID: id + "requests-chart", Figure: func() *figure.Figure { return figure.Requests(r) }})
	return out
}

// fewAnswered is the share of refused or failed requests from which the page warns: the p99 then describes a lower load
// than the scheduled one.
const fewAnswered = 0.01

// noneText explains why a run has no measured request.
func noneText(q *loadtest.Requests) string {
	if q.From == loadtest.FromFirstByte {
		return "no request came while the run listened"
	}
	return "no request was sent after the warm-up of the load"
}

// answeredText counts the requests without a latency, in a line above the percentiles; nil if nearly all were answered.
func answeredText(r *gpuprof.Run, in Where) Block {
	if r.Requests == nil {
		return nil
	}
	t := r.Requests.Sum()
	if t.Scheduled == 0 {
		why := noneText(r.Requests)
		return Text{S: strings.ToUpper(why[:1]) + why[1:] + ", so there are no latencies.", Tone: Unsure, In: in}
	}
	missing := t.Refused + t.Failed
	if missing == 0 || float64(missing) < fewAnswered*float64(t.Scheduled) {
		return nil
	}
	how := "refused"
	switch {
	case t.Refused == 0:
		how = "failed"
	case t.Failed > 0:
		how = "refused or failed"
	}
	return Text{S: fmt.Sprintf("%s of the requests were %s: the latencies are those of the others.", view.Percent(float64(missing)/float64(t.Scheduled)), how), Tone: Unsure, In: in}
}

// lateText warns that the sender delayed requests, so that a reader does not blame the service for the latency. It
// returns nil if the sender was in time.
func lateText(r *gpuprof.Run, in Where) Block {
	if r.Requests == nil || r.Requests.Told() == 1 {
		return nil
	}
	text := "generator-late: the sender of the requests was late, so the latencies above p50 measure the sender and are left out."
	if r.Requests.Told() == 0 {
		text = "generator-late: the sender of the requests was later than their median latency, so the latencies measure the sender and are left out."
	}
	return Text{S: text, Tone: Unsure, In: in}
}

// waitsText warns that the sender waited for the service (closed loop). The warning is above the percentiles because a
// terminal short of lines drops the texts below tables first.
func waitsText(r *gpuprof.Run, in Where) Block {
	if r.Requests == nil || r.Requests.Waits == "" {
		return nil
	}
	return Text{S: omissionText(r.Requests), Tone: Unsure, In: in}
}

func outcomeText(q *loadtest.Requests) string {
	t := q.Sum()
	if t.Scheduled == 0 {
		return "none"
	}
	parts := []string{fmt.Sprintf("%d scheduled", t.Scheduled), fmt.Sprintf("%d answered", t.Completed)}
	if t.Refused > 0 {
		text := fmt.Sprintf("%d refused", t.Refused)
		if t.Expired > 0 {
			text += fmt.Sprintf(" (%d for their age)", t.Expired)
		}
		parts = append(parts, text)
	} else {
		parts = append(parts, "none refused")
	}
	if t.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.Failed))
	}
	if t.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d open at the end", t.Open))
	}
	return strings.Join(parts, ", ")
}

func rateText(q *loadtest.Requests) string {
	t := q.Sum()
	if t.Scheduled == 0 {
		return noneText(q)
	}
	text := "in " + gpuprof.FormatSeconds(t.Seconds)
	switch {
	case q.Rate > 0 && q.Throughput > 0:
		share := strconv.FormatFloat(q.Rate/q.Throughput, 'f', 2, 64)
		if q.Rate < 0.1*q.Throughput {
			share = formatSci(q.Rate / q.Throughput)
		}
		return fmt.Sprintf("%s at %s per second, %s of the throughput", text, strconv.FormatFloat(q.Rate, 'g', 4, 64), share)
	case q.Rate > 0:
		return fmt.Sprintf("%s at %s per second", text, strconv.FormatFloat(q.Rate, 'g', 4, 64))
	case q.Waits == loadtest.WaitsAnswer:
		return text + ", by callers that wait for their answers"
	case q.From == loadtest.FromFirstByte && t.Seconds > 0:
		return fmt.Sprintf("%s by other programs over HTTP, %s per second", text, strconv.FormatFloat(float64(t.Scheduled)/t.Seconds, 'g', 4, 64))
	}
	return text
}

func batchText(t loadtest.Served) string {
	var batches, requests int64
	for i, n := range t.Batches {
		batches, requests = batches+n, requests+n*int64(i+1)
	}
	if batches == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g requests in the mean, at most %d", float64(requests)/float64(batches), len(t.Batches))
}

// omissionText states which time the latencies of a waiting sender omit (coordinated omission).
func omissionText(q *loadtest.Requests) string {
	switch q.Waits {
	case loadtest.WaitsRoom:
		return "The sender waited for room in the queue. The latency counts from the schedule; the column from send is what a sender that waits would report, and hides the time for which it was held back."
	case loadtest.WaitsAnswer:
		return "Each caller waits for its answer before it sends again, so that a slow service is asked less often. " + scheduleText(q.OnSchedule.Requests(), q.Throughput)
	}
	return ""
}

// scheduleText explains the column of requests on a schedule (open loop), next to the latencies of callers that wait. o
// is nil if that load was not measured. throughput is in requests per second.
func scheduleText(o *loadtest.Requests, throughput float64) string {
	if o == nil {
		return "Requests on a schedule would wait longer: measure them with --set arrivals=gamma."
	}
	text := fmt.Sprintf("The column on a schedule is of %.4g requests per second that came whatever the service did, as many as the callers sent", o.Rate)
	if o.Rate >= latency.Settled*throughput {
		text += "; this is all that the service can do, so that its queue grew as long as the load lasted"
	}
	if t := o.Sum(); t.Refused > 0 {
		text += fmt.Sprintf("; %s of them were refused", view.Percent(float64(t.Refused)/float64(t.Scheduled)))
	}
	if o.Told() < 1 {
		text += "; their sender was late, and the latencies that measure the sender are left out"
	}
	return text + "."
}

// latencyTable has a row per statistic and a column per kind of time, without rows that only show a late sender.
func latencyTable(q *loadtest.Requests) Table {
	t := Table{Name: "Table of latencies", Noun: "percentile", Caption: latencyCaption(q),
		Columns: []Column{{Title: "percentile", Left: true}, {Title: "latency"}, {Title: "95 % interval", Drop: 300}}}
	kinds := []*loadtest.LatencySummary{&q.Latency}
	var onSchedule *loadtest.LatencySummary
	if q.OnSchedule != nil {
		onSchedule = &q.OnSchedule.Latency
	}
	whole := func(l *loadtest.LatencySummary) bool { return l != onSchedule || q.OnSchedule.Requests().Told() == 1 }
	for _, kind := range []struct {
		column Column
		of     *loadtest.LatencySummary
	}{
		{Column{Title: "from send", Drop: 50}, q.FromSent}, {Column{Title: "on a schedule", Drop: 40}, onSchedule}, {Column{Title: "in queue", Drop: 100}, &q.Queue},
		{Column{Title: "in service", Drop: 200}, &q.Service}, {lateColumn(q), &q.Late}, {Column{Title: "decoding", Drop: 275}, q.Decode},
	} {
		if kind.of != nil && kind.of.Count > 0 {
			t.Columns, kinds = append(t.Columns, kind.column), append(kinds, kind.of)
		}
	}
	if q.Latency.Count == 0 || q.Told() == 0 {
		return t
	}
	row := func(name string, of func(*loadtest.LatencySummary) (loadtest.Percentile, bool)) {
		r := Row{Cells: []Cell{wordsCell(name)}}
		for i, l := range kinds {
			p, known := of(l)
			switch {
			case !known && i == 0:
				return
			case !known:
				r.Cells = append(r.Cells, Cell{})
			default:
				r.Cells = append(r.Cells, amountCell(gpuprof.FormatSeconds(p.S), p.S, "s"))
			}
			if i == 0 && p.CI95 != nil {
				r.Cells = append(r.Cells, wordsCell(view.Interval(*p.CI95, gpuprof.FormatSeconds)))
			} else if i == 0 {
				r.Cells = append(r.Cells, Cell{})
			}
		}
		t.Rows = append(t.Rows, r)
	}
	if q.Told() == 1 {
		row("mean", func(l *loadtest.LatencySummary) (loadtest.Percentile, bool) {
			return loadtest.Percentile{S: l.MeanS}, whole(l)
		})
	}
	for _, share := range latency.Shares() {
		row(fmt.Sprintf("p%g", 100*share), func(l *loadtest.LatencySummary) (loadtest.Percentile, bool) { return l.At(share) })
	}
	if q.Told() == 1 {
		row("longest", func(l *loadtest.LatencySummary) (loadtest.Percentile, bool) {
			return loadtest.Percentile{S: l.MaxS}, whole(l)
		})
	}
	return t
}

// lateColumn returns the column of Requests.Late, the time from the event at which a latency starts (Requests.From)
// until the request enters the queue. Its title is "receiving" if that event is the first byte, otherwise "sent late".
func lateColumn(q *loadtest.Requests) Column {
	if q.From == loadtest.FromFirstByte {
		return Column{Title: "receiving", Drop: 250}
	}
	return Column{Title: "sent late", Drop: 250}
}

// outsideLines describes callers in other programs, and the checks of their answers.
func outsideLines(q *loadtest.Requests) []Line {
	var out []Line
	rejected, gone := map[string]int64{}, int64(0)
	for i := range q.Processes {
		p := &q.Processes[i]
		if p.FailedFor != "" {
			out = append(out, Line{Label: "failed", Value: "with their batch", Note: p.FailedFor})
		}
		o := p.Outside
		if o == nil {
			continue
		}
		for status, n := range o.Rejected {
			rejected[status] += n
		}
		gone += o.Gone
		if o.Recomputed > 0 {
			out = append(out, Line{Label: "checked", Value: fmt.Sprintf("%d answers, drawn at random, computed again in float64", o.Recomputed),
				Note: fmt.Sprintf("%.2g away at most, %.2g allowed", relativeError(o), o.Tolerance)})
		}
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(rejected)) {
		name := "HTTP " + status
		if status == "closed" {
			name = "connection closed"
		}
		parts = append(parts, fmt.Sprintf("%d %s", rejected[status], name))
	}
	if len(parts) > 0 {
		out = append(out, Line{Label: "rejected", Value: strings.Join(parts, ", "), Note: "before they were requests"})
	}
	if gone > 0 {
		out = append(out, Line{Label: "callers gone", Value: fmt.Sprint(gone), Note: "before their answers, which count"})
	}
	return out
}

func latencyCaption(q *loadtest.Requests) string {
	from := map[string]string{loadtest.FromSchedule: "when a request was due", loadtest.FromSend: "when a request was sent", loadtest.FromFirstByte: "a request's first byte"}[q.From]
	return "Times of the requests, from " + from + " to its answer. A percentile is left out where fewer than ten requests lie beyond it, and where it is the delay of a late sender."
}

// relativeError returns the largest relative error of the recomputed answers; NaN if it is not finite.
func relativeError(o *loadtest.Outside) float64 {
	if o.Error == nil {
		return math.NaN()
	}
	return *o.Error
}
