package program

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Of two that are given one folder at once, one records and the other is told.
func TestOneFolderTwice(t *testing.T) {
	dir := t.TempDir()
	held, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "another gpuprof run is recording into it") {
		t.Errorf("%v, want ErrUsage", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestMarkInflated(t *testing.T) {
	for _, c := range []struct {
		rule  string
		ratio float64
		want  string
	}{
		{"item", 1.5, "inflated by profiling: recording made steps 1.50 times as long; of what is claimed up to 2.00 ms per step may be the recording's"},
		{"item", 1.05, ""},
		{"no-tf32", 1.5, ""},
		{"dataloader-stall", 0, ""},
	} {
		a, f := &analyze.Analysis{Step: analyze.StepMean{Count: 4, NS: 15_000_000}}, gpuprof.Finding{Rule: c.rule, StepNS: 2_000_000}
		got := ""
		if caveat := inflationCaveats(&record.Overhead{DuringS: 0.015, Ratio: c.ratio}); caveat != nil {
			got = caveat(a, f)
		}
		if got != c.want {
			t.Errorf("%s at %.2f: %q, want %q", c.rule, c.ratio, got, c.want)
		}
	}
	uneven := inflationCaveats(&record.Overhead{BeforeS: 0.001, DuringS: 0.015, AfterS: 0.02, Uneven: true})
	if got, want := uneven(&analyze.Analysis{}, gpuprof.Finding{Rule: "item"}), "may be inflated by profiling: steps after the recording took 20 times as long as before, too uneven to say by how much"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if inflationCaveats(nil) != nil {
		t.Error("marked without a measurement")
	}
}
