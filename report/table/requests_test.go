package table_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// TestBriefSaysWhatLatenciesAre: a terminal that leaves out the warnings and the count of
// requests still says above the percentiles that the sender was late or that requests have no answer. Of a run whose
// sender was late nothing was cut short.
func TestBriefSaysWhatLatenciesAre(t *testing.T) {
	const late, missing, short = "generator-late: the sender", "of the requests were", "cut short"
	const room, answer = "The sender waited for room in the queue", "Each caller waits for its answer"
	lateness := func(told int) func(*gpuprof.Run) {
		return func(r *gpuprof.Run) {
			q := r.Requests
			q.SenderLate, q.Latency.Percentiles = "the sender of the requests was 4.00 ms late at p99", q.Latency.Percentiles[:told]
		}
	}
	for name, c := range map[string]struct {
		run   int
		edit  func(*gpuprof.Run)
		wants []string
	}{
		"as it should be": {0, func(*gpuprof.Run) {}, nil},
		"waits for room":  {0, func(r *gpuprof.Run) { r.Requests.Waits = loadtest.WaitsRoom }, []string{room}},
		"closed loop":     {0, func(r *gpuprof.Run) { r.Requests.Waits = loadtest.WaitsAnswer }, []string{answer}},
		"late":            {0, lateness(1), []string{late + " of the requests was late, so the latencies above p50"}},
		"too late": {0, func(r *gpuprof.Run) {
			lateness(0)(r)
			r.Status, r.Reason = gpuprof.Partial, loadtest.ReasonGenerator
		}, []string{late + " of the requests was later than their median latency"}},
		"interrupted":     {0, func(r *gpuprof.Run) { r.Status, r.Reason = gpuprof.Partial, "interrupted" }, []string{short}},
		"refused":         {3, func(*gpuprof.Run) {}, []string{"2.0 % " + missing + " refused"}},
		"few refused":     {3, func(r *gpuprof.Run) { r.Requests.Processes[0].Refused = 39 }, nil},
		"failed":          {0, func(r *gpuprof.Run) { r.Requests.Processes[0].Failed = 400 }, []string{"10.0 % " + missing + " failed"}},
		"refused, failed": {3, func(r *gpuprof.Run) { r.Requests.Processes[0].Failed = 40 }, []string{"3.0 % " + missing + " refused or failed"}},
	} {
		r := fixture.Loaded()[c.run]
		r.Warnings = nil
		c.edit(r)
		p, err := page.Runs([]*gpuprof.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		head, rows, found := strings.Cut(shown(t, p, nil, table.Options{Lines: screenLines}), "percentile ")
		if told := r.Requests.Told(); found != (told > 0) || found && strings.Contains(rows, "\np99 ") != (told == 1) {
			t.Errorf("%s: percentiles %v:\n%s", name, found, rows)
		}
		for _, text := range append([]string{late, missing, short, room, answer}, c.wants...) {
			want := slices.ContainsFunc(c.wants, func(w string) bool { return strings.Contains(w, text) })
			in := head
			if text == short {
				in = shown(t, p, nil, table.Options{})
			}
			if strings.Contains(in, text) != want {
				t.Errorf("%s: %q above the percentiles: %v, want %v:\n%s", name, text, !want, want, in)
			}
		}
	}
}

// A sweep names the settings whose latencies are not the service's alone.
func TestSweepNamesLateSettings(t *testing.T) {
	runs := fixture.Loaded()
	for _, i := range []int{2, 3} {
		q := runs[i].Requests
		q.SenderLate, q.Latency.Percentiles = "the sender of the requests was 4.00 ms late at p99", q.Latency.Percentiles[:1]
	}
	p, err := page.Runs(runs)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Lines: screenLines})), " ")
	if want := "the sender of the requests was late with load=0.8, 0.9, so the latencies there that measure the sender are left out."; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// A rate far below the throughput is a share of it, not nothing.
func TestSmallShareOfTheThroughput(t *testing.T) {
	r := fixture.Loaded()[0]
	for rate, want := range map[float64]string{700: "0.70 of the throughput", 99.5: "0.1 of the throughput", 1.7: "0.0017 of the throughput"} {
		r.Requests.Rate = rate
		p, err := page.Runs([]*gpuprof.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		if out := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Width: 120})), " "); !strings.Contains(out, want) {
			t.Errorf("%g: no %q in\n%s", rate, want, out)
		}
	}
}

// Callers that wait have requests on a schedule beside theirs, with what of these is not the service's left out.
func TestOnSchedule(t *testing.T) {
	for told, want := range map[float64]string{1: "108 ms 195 ms", 0.5: "108 ms - 39.6"} { // p50 and p99 at load 0.9, then that of the queue
		runs := fixture.Loaded()
		r, o := runs[1], runs[3].Requests
		r.Requests.Waits, r.Requests.Rate = loadtest.WaitsAnswer, 0
		if told < 1 {
			o.SenderLate, o.Latency.Percentiles = "the sender was late", o.Latency.Percentiles[:1]
		}
		r.Requests.OnSchedule = o.AsOnSchedule()
		p, err := page.Runs([]*gpuprof.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		text := shown(t, p, nil, table.Options{})
		var cells []string
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) > 4 && (f[0] == "p50" || f[0] == "p99") && f[2] == "ms" {
				cells = append(cells, strings.TrimSpace(strings.Join(f[3:min(5, len(f))], " ")))
			}
		}
		words := strings.Join(strings.Fields(text), " ")
		for _, says := range []string{"on a schedule in queue", "The column on a schedule is of 900 requests per second", "2.0 % of them were refused"} {
			if !strings.Contains(words, says) {
				t.Errorf("no %q in\n%s", says, text)
			}
		}
		if late := strings.Contains(words, "their sender was late"); late != (told < 1) {
			t.Errorf("told %g: late %v", told, late)
		}
		if got := strings.Join(cells, " "); got != want {
			t.Errorf("told %g: the column is %q, want %q:\n%s", told, got, want, text)
		}
	}
}

// A load without a request says so, and has no rate and no time: "0 scheduled in 0 ns" looks like a fault.
func TestNoRequests(t *testing.T) {
	for from, want := range map[string]string{
		loadtest.FromFirstByte: "no request came while the run listened",
		loadtest.FromSchedule:  "no request was sent after the warm-up of the load",
	} {
		r := fixture.Loaded()[0]
		q := *r.Requests
		r.Requests = &loadtest.Requests{Arrivals: q.Arrivals, Throughput: q.Throughput, SLO: q.SLO, From: from, Processes: []loadtest.Served{{}}}
		p, err := page.Runs([]*gpuprof.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		brief := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Lines: screenLines})), " ")
		if first := strings.ToUpper(want[:1]) + want[1:] + ", so there are no latencies."; !strings.Contains(brief, first) {
			t.Errorf("no %q in\n%s", first, brief)
		}
		whole := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Width: 120})), " ")
		if !strings.Contains(whole, "requests none ("+want+")") || strings.Contains(whole, "0 scheduled") || strings.Contains(whole, "0 ns") {
			t.Errorf("%s", whole)
		}
	}
}
