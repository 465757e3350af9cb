package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

func shown(t testing.TB, p *page.Page, err error, o table.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err == nil {
		err = table.Write(&b, p, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gate(t testing.TB, c *compare.Comparison, o table.Options) string {
	t.Helper()
	p, err := page.Comparison(c)
	return shown(t, p, err, o)
}

func TestGateGolden(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure()} {
		golden(t, "gate-"+name+"-80", gate(t, c, table.Options{}))
	}
	golden(t, "gate-regressed-120", gate(t, fixture.GateRegressed(), table.Options{Width: 120}))
	golden(t, "gate-regressed-quiet", gate(t, fixture.GateRegressed(), table.Options{Quiet: true}))
}

// TestGateFits: every line within the width, whatever the names are, and with
// thousands of metrics a table that can still be read.
func TestGateFits(t *testing.T) {
	for name, c := range map[string]*compare.Comparison{
		"regressed": fixture.GateRegressed(), "hostile": fixture.GateHostile(), "256 of 300": fixture.GateMany(300, 256), "5,000": fixture.GateMany(5000, 5000), "none bad": fixture.GateMany(5000, 0), "empty": {},
	} {
		for _, width := range []int{60, 80, 120} {
			out := gate(t, c, table.Options{Width: width})
			for l := range strings.Lines(out) {
				l = strings.TrimSuffix(l, "\n")
				if w := twwidth.Width(l); w > width && !isCommandLine(l) {
					t.Errorf("%s: %d columns of %d: %s", name, w, width, l)
				}
				if strings.ContainsAny(l, "\x1b\x00\r") {
					t.Errorf("%s: a control character came through: %q", name, l)
				}
			}
			if n := strings.Count(out, "\n"); n > 500 {
				t.Errorf("%s: %d lines", name, n)
			}
		}
	}
}

// TestGateFailuresFirst: of thousands of metrics those that failed are shown,
// the worst first, and what is not shown is counted.
func TestGateFailuresFirst(t *testing.T) {
	out := gate(t, fixture.GateMany(5000, 256), table.Options{Width: 120})
	first, last := strings.Index(out, "size=4999/"), strings.Index(out, "size=4744/")
	if first < 0 || last < first || strings.Index(out, "size=0/") < last {
		t.Errorf("order: %d %d", first, last)
	}
	if !strings.Contains(out, "not listed: 4684 metrics") {
		t.Error("what is left out is not counted")
	}
	brief := gate(t, fixture.GateMany(5000, 256), table.Options{Lines: 23})
	if rows := strings.Count(brief, "  regressed  "); rows < 5 || strings.Contains(brief, "size=0/") || !strings.Contains(brief, fmt.Sprintf(" %d metrics", 5000-rows)) {
		t.Errorf("what is the same is shown, or is not counted:\n%s", brief)
	}
}

func TestGateColor(t *testing.T) {
	c := fixture.GateRegressed()
	colored := gate(t, c, table.Options{Color: true})
	for _, want := range []string{"\x1b[31mregressed\x1b[0m", "\x1b[33minconclusive\x1b[0m", "\x1b[32mimproved\x1b[0m", "\x1b[31m[regressed]"} {
		if !strings.Contains(colored, want) {
			t.Errorf("%q is missing", want)
		}
	}
	strip := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "")
	if strip.Replace(colored) != gate(t, c, table.Options{}) {
		t.Error("colour changes the text")
	}
}
