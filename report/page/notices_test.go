package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
)

func warned(batch string, processes int, ws ...gpuprof.Warning) *gpuprof.Run {
	r := &gpuprof.Run{Knobs: map[string]string{"batch": batch}, Warnings: ws, Step: &gpuprof.Series{Median: 1}}
	for range processes {
		r.Step.Runs = append(r.Step.Runs, []float64{1})
	}
	return r
}

// unsettled is measure's warning about a warm-up that did not settle.
func unsettled(process int, spread, allowed string) gpuprof.Warning {
	return gpuprof.Warning{Code: "not-settled", Fix: "wait",
		Text: fmt.Sprintf("process %d: after 10.3 s of warm-up the step of the last 5 windows still differs by %s %% (%s %% allowed)", process, spread, allowed)}
}

// balanced says whether every bracket of some words is closed in them.
func balanced(words []string) bool {
	text := strings.Join(words, " ")
	for _, pair := range []string{"()", "[]", `""`} {
		opened, closed := strings.Count(text, pair[:1]), strings.Count(text, pair[1:])
		if opened != closed || pair == `""` && opened%2 > 0 {
			return false
		}
	}
	return true
}

func TestNoticesGroup(t *testing.T) {
	uncertain := func(prefix, lo, hi string) gpuprof.Warning {
		return gpuprof.Warning{Code: "uncertain", Text: prefix + "the overhead is only known to lie between " + lo + " % and " + hi + " %; the limit is 0.5 %", Fix: "run longer"}
	}
	busy := gpuprof.Warning{Code: "busy", Text: "the machine was busy", Fix: "wait"}
	shared := "the overhead is only known to lie between …; the limit is 0.5 %"
	for name, c := range map[string]struct {
		runs []*gpuprof.Run
		want []notice
	}{
		"one run": {[]*gpuprof.Run{warned("64", 1, busy)}, []notice{{Code: "busy", Text: busy.Text, Fix: "wait"}}},
		"sweep": {[]*gpuprof.Run{warned("64", 1, uncertain("", "-1", "2"), busy), warned("128", 1), warned("256", 1, uncertain("", "-5", "7"))},
			[]notice{{Code: "uncertain", Where: "2 of 3 runs", Text: shared, Fix: "run longer", Each: []string{"batch=64: -1 % and 2 %", "batch=256: -5 % and 7 %"}},
				{Code: "busy", Where: "batch=64", Text: busy.Text, Fix: "wait"}}},
		"a unit": {[]*gpuprof.Run{warned("64", 1, gpuprof.Warning{Code: "late", Text: "the sender was 2.25 ms late, of a median latency of 3.48 ms, and this is part of it"}),
			warned("128", 1, gpuprof.Warning{Code: "late", Text: "the sender was 144 us late, of a median latency of 2.71 ms, and this is part of it"})},
			[]notice{{Code: "late", Where: "2 of 2 runs", Text: "the sender was …, and this is part of it",
				Each: []string{"batch=64: 2.25 ms late, of a median latency of 3.48 ms", "batch=128: 144 us late, of a median latency of 2.71 ms"}}}},
		"same words": {[]*gpuprof.Run{warned("64", 1, busy), warned("128", 1, busy), warned("256", 1)},
			[]notice{{Code: "busy", Where: "2 of 3 runs (batch=64, 128)", Text: busy.Text, Fix: "wait"}}},
		"processes": {[]*gpuprof.Run{warned("64", 3, uncertain("process 1: ", "-1", "2"), uncertain("process 3: ", "-3", "4"))},
			[]notice{{Code: "uncertain", Where: "2 of 3 processes", Text: shared, Fix: "run longer", Each: []string{"process 1: -1 % and 2 %", "process 3: -3 % and 4 %"}}}},
		"a bracket that opens in what differs": {[]*gpuprof.Run{warned("64", 2, unsettled(1, "5.0", "1.0"), unsettled(2, "7.5", "2.0"))},
			[]notice{{Code: "not-settled", Where: "2 of 2 processes", Fix: "wait", Text: "after 10.3 s of warm-up the step of the last 5 windows still differs by …",
				Each: []string{"process 1: 5.0 % (1.0 % allowed)", "process 2: 7.5 % (2.0 % allowed)"}}}},
		"a bracket that differs": {[]*gpuprof.Run{warned("64", 2, unsettled(1, "5.0", "1.0"), unsettled(2, "5.0", "2.0"))},
			[]notice{{Code: "not-settled", Where: "2 of 2 processes", Fix: "wait", Text: "after 10.3 s of warm-up the step of the last 5 windows still differs by 5.0 % …",
				Each: []string{"process 1: (1.0 % allowed)", "process 2: (2.0 % allowed)"}}}},
		"a bracket behind what differs": {[]*gpuprof.Run{warned("64", 2, unsettled(1, "5.0", "1.0"), unsettled(2, "7.5", "1.0"))},
			[]notice{{Code: "not-settled", Where: "2 of 2 processes", Fix: "wait", Text: "after 10.3 s of warm-up the step of the last 5 windows still differs by … (1.0 % allowed)",
				Each: []string{"process 1: 5.0 %", "process 2: 7.5 %"}}}},
		"half a quote as a whole": {[]*gpuprof.Run{warned("64", 1, gpuprof.Warning{Code: "a", Text: `the step took it" at last`}), warned("128", 1, gpuprof.Warning{Code: "a", Text: `the step took it" it" at last`})},
			[]notice{{Code: "a", Where: "2 of 2 runs", Text: "the step took … at last", Each: []string{`batch=64: it"`, `batch=128: it" it"`}}}},
		"nothing in common": {[]*gpuprof.Run{warned("64", 1, gpuprof.Warning{Code: "a", Text: "one thing"}), warned("128", 1, gpuprof.Warning{Code: "a", Text: "another matter"})},
			[]notice{{Code: "a", Where: "2 of 2 runs", Each: []string{"batch=64: one thing", "batch=128: another matter"}}}},
	} {
		if d := cmp.Diff(c.want, groupNotices(c.runs)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestNoticesLoseNoText: putting each part back in the place of the ellipsis
// gives what the run said.
func TestNoticesLoseNoText(t *testing.T) {
	word := rapid.SampledFrom([]string{"the", "step", "took", "1.5", "%;", "ms,", "2.25", "more", "-", "(1.0", "% allowed)", "[a]", "/x/y.py:3", "\"so", "it\""})
	rapid.Check(t, func(t *rapid.T) {
		var runs []*gpuprof.Run
		var said []string
		for i := range rapid.IntRange(2, 5).Draw(t, "runs") {
			text := "the step took " + strings.Join(rapid.SliceOfN(word, 1, 6).Draw(t, "words"), " ") + " at last"
			said = append(said, text)
			runs = append(runs, warned(fmt.Sprint(i), 1, gpuprof.Warning{Code: "x", Text: text}))
		}
		n := groupNotices(runs)[0]
		if len(n.Each) == 0 {
			if slices.ContainsFunc(said, func(s string) bool { return s != n.Text }) {
				t.Fatalf("%q for %q", n.Text, said)
			}
			return
		}
		for i, each := range n.Each {
			_, part, _ := strings.Cut(each, ": ")
			if whole := strings.Fields(said[i]); balanced(whole) && !balanced(strings.Fields(part)) {
				t.Fatalf("%q of %q has half a bracket", part, said[i])
			}
			if n.Text == "" && part == said[i] {
				continue // too little would be left to share
			}
			if got := strings.Replace(n.Text, "…", part, 1); strings.Join(strings.Fields(got), " ") != said[i] {
				t.Fatalf("%q + %q, want %q", n.Text, part, said[i])
			}
		}
	})
}
