package doctor

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/health"
)

// TestAsScheduler: a fault counts for every caller, also where other programs use the GPUs;
// what is not known is left to --unknown, and what was only compared to no prolog.
func TestAsScheduler(t *testing.T) {
	one, none := 1, 0
	used := health.Card{Device: "cuda:0", Condition: health.Condition{Foreign: &one}, Sources: testkit.MadeUpGPU("", 1).Sources}
	idle := health.Card{Device: "cuda:1", Condition: health.Condition{Foreign: &none}, Sources: testkit.MadeUpGPU("", 1).Sources}
	lost := health.Card{Device: "gpu1", PCI: "0000:ca:00.0", Sources: []health.Source{health.FaultOf(health.SourceNVML, "lost", health.FixRestart)}}
	silent := testkit.MadeUpGPU("cuda:0", 4e12)
	silent.Sources = nil
	slow := []health.Card{testkit.MadeUpGPU("cuda:0", 4e12), testkit.MadeUpGPU("cuda:1", 3e12), testkit.MadeUpGPU("cuda:2", 4e12)}
	failed := health.Card{Device: health.AllGPUs, Error: "no library", Err: errors.New("no library")}
	const drain = "scontrol update NodeName=n7 State=DRAIN Reason=\"gpuprof: "
	for name, c := range map[string]struct {
		cards  []health.Card
		as     string
		policy string
		code   int
		prints string // of the drain command; none where it is empty
	}{
		"in use":                     {[]health.Card{used, idle}, "health", "", cli.ExitOK, ""},
		"in use, and one is lost":    {[]health.Card{used, lost}, "health", "", cli.ExitRegression, drain + "lost of gpu1 (PCI 0000:ca:00.0)\""},
		"slow":                       {slow, "health", "", cli.ExitRegression, drain + "copy of cuda:1\""},
		"slow, as a prolog":          {slow, "prolog", "drain", cli.ExitOK, ""},
		"not checked":                {[]health.Card{silent}, "health", "", cli.ExitOK, ""},
		"not checked, healthy":       {[]health.Card{silent}, "health", "healthy", cli.ExitOK, ""},
		"not checked, drain":         {[]health.Card{silent}, "health", "drain", cli.ExitRegression, drain + "GPUs were not checked\""},
		"not checked, prolog":        {[]health.Card{silent}, "prolog", "", cli.ExitOK, ""},
		"not checked, prolog, drain": {[]health.Card{silent}, "prolog", "drain", cli.ExitRegression, ""},
		"not checked, by hand":       {[]health.Card{silent}, "", "", cli.ExitInconclusive, ""},
		"no sibling":                 {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12)}, "health", "drain", cli.ExitInconclusive, ""},
		"failed":                     {[]health.Card{failed}, "health", "", cli.ExitFailed, ""},
		"failed, drain":              {[]health.Card{failed}, "health", "drain", cli.ExitRegression, drain + "GPUs were not checked\""},
		"failed, prolog":             {[]health.Card{failed}, "prolog", "", cli.ExitOK, ""},
		"failed, and one is lost":    {[]health.Card{failed, lost}, "prolog", "", cli.ExitRegression, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := health.Judge(nil, c.cards, nil, gpuprof.Tool{})
			if err != nil {
				t.Fatal(err)
			}
			r.Node = "n7"
			var out bytes.Buffer
			err = (&Cmd{As: c.as, Unknown: c.policy}).asScheduler(&cli.App{Tables: &cli.Tables{}, Ctx: t.Context(), Stdout: &out, Stderr: io.Discard}, r, verdictOf(r, nil))
			if got := cli.ExitCode(err); got != c.code || strings.TrimSpace(out.String()) != c.prints {
				t.Errorf("%s: code %d, want %d; %v\n%s", r.Verdict, got, c.code, err, &out)
			}
		})
	}
}
