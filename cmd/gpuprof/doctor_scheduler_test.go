package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/health"
)

// TestAsScheduler: a fault counts for every caller, also where other programs use the GPUs;
// what is not known is left to --unknown, and what was only compared to no prolog.
func TestAsScheduler(t *testing.T) {
	one, none := 1, 0
	used := health.Card{Device: "cuda:0", Condition: health.Condition{Foreign: &one}, Sources: madeUp("", 1).Sources}
	idle := health.Card{Device: "cuda:1", Condition: health.Condition{Foreign: &none}, Sources: madeUp("", 1).Sources}
	lost := health.Card{Device: "gpu1", PCI: "0000:ca:00.0", Sources: []health.Source{health.FaultOf(health.SourceNVML, "lost", health.FixRestart)}}
	silent := madeUp("cuda:0", 4e12)
	silent.Sources = nil
	slow := []health.Card{madeUp("cuda:0", 4e12), madeUp("cuda:1", 3e12), madeUp("cuda:2", 4e12)}
	failed := health.Card{Device: health.AllGPUs, Error: "no library", Err: errors.New("no library")}
	const drain = "scontrol update NodeName=n7 State=DRAIN Reason=\"gpuprof: "
	for name, c := range map[string]struct {
		cards  []health.Card
		as     string
		policy string
		code   int
		prints string // of the drain command; none where it is empty
	}{
		"in use":                     {[]health.Card{used, idle}, "health", "", exitOK, ""},
		"in use, and one is lost":    {[]health.Card{used, lost}, "health", "", exitRegression, drain + "lost of gpu1 (PCI 0000:ca:00.0)\""},
		"slow":                       {slow, "health", "", exitRegression, drain + "copy of cuda:1\""},
		"slow, as a prolog":          {slow, "prolog", "drain", exitOK, ""},
		"not checked":                {[]health.Card{silent}, "health", "", exitOK, ""},
		"not checked, healthy":       {[]health.Card{silent}, "health", "healthy", exitOK, ""},
		"not checked, drain":         {[]health.Card{silent}, "health", "drain", exitRegression, drain + "GPUs were not checked\""},
		"not checked, prolog":        {[]health.Card{silent}, "prolog", "", exitOK, ""},
		"not checked, prolog, drain": {[]health.Card{silent}, "prolog", "drain", exitRegression, ""},
		"not checked, by hand":       {[]health.Card{silent}, "", "", exitInconclusive, ""},
		"no sibling":                 {[]health.Card{madeUp("cuda:0", 4e12)}, "health", "drain", exitInconclusive, ""},
		"failed":                     {[]health.Card{failed}, "health", "", exitFailed, ""},
		"failed, drain":              {[]health.Card{failed}, "health", "drain", exitRegression, drain + "GPUs were not checked\""},
		"failed, prolog":             {[]health.Card{failed}, "prolog", "", exitOK, ""},
		"failed, and one is lost":    {[]health.Card{failed, lost}, "prolog", "", exitRegression, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := health.Judge(nil, c.cards, nil, wired.tables().tool)
			if err != nil {
				t.Fatal(err)
			}
			r.Node = "n7"
			var out bytes.Buffer
			err = (&doctorCmd{As: c.as, Unknown: c.policy}).asScheduler(&app{tables: wired.tables(), ctx: t.Context(), stdout: &out, stderr: io.Discard}, r, verdictOf(r, nil))
			if got := exitCode(err); got != c.code || strings.TrimSpace(out.String()) != c.prints {
				t.Errorf("%s: code %d, want %d; %v\n%s", r.Verdict, got, c.code, err, &out)
			}
		})
	}
}
