package sweep_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// The knee is the largest load with 99 of 100 requests in time. A service that refuses the rest
// has none there however fast the others are, and a load with too few requests says nothing.
func TestKnee(t *testing.T) {
	few := func(r *gpuprof.Run) { r.Requests.Latency.Count = 999 }
	unsure := func(r *gpuprof.Run) { // its tail is not told
		r.Requests.SenderLate, r.Requests.Latency.Percentiles = "the sender was late", r.Requests.Latency.Percentiles[:1]
	}
	late := func(r *gpuprof.Run) { // later than the median latency
		r.Status, r.Reason = gpuprof.Partial, loadtest.ReasonGenerator
		r.Requests.SenderLate, r.Requests.Latency.Percentiles = "the sender was late", nil
	}
	for name, c := range map[string]struct {
		change      func([]*gpuprof.Run)
		knee, above float64
		text        string
	}{
		"as made":           {func([]*gpuprof.Run) {}, 0.8, -1, "knee at load 0.8, the largest with 99 of 100 requests within 100 ms"},
		"refuses no more":   {func(r []*gpuprof.Run) { r[3].Requests.Processes[0].InTime = 3960 }, 0.9, -1, "knee above load 0.9"},
		"open do not count": {func(r []*gpuprof.Run) { q := &r[3].Requests.Processes[0]; q.Open, q.InTime = 100, 3861 }, 0.9, -1, "knee above load 0.9"},
		"one below":         {func(r []*gpuprof.Run) { r[1].Requests.Processes[0].InTime = 3959 }, 0.8, 0.5, "but at 0.5, below it, fewer were"},
		"never": {func(r []*gpuprof.Run) {
			r[0].Requests.Processes[0].InTime, r[1].Requests.Processes[0].InTime, r[2].Requests.Processes[0].InTime = 1, 1, 1
		}, -1, -1, "no knee: at no load"},
		"too few at 0.8":                      {func(r []*gpuprof.Run) { few(r[2]) }, 0.5, -1, "knee at load 0.5"},
		"too few":                             {func(r []*gpuprof.Run) { few(r[0]); few(r[1]); few(r[2]); few(r[3]) }, -1, -1, "too few requests"},
		"late below":                          {func(r []*gpuprof.Run) { late(r[1]); r[1].Requests.Processes[0].InTime = 1 }, 0.8, -1, "knee at load 0.8, the largest with 99 of 100 requests within 100 ms; left out: load 0.5, where the sender was late"},
		"late above":                          {func(r []*gpuprof.Run) { late(r[2]); late(r[3]) }, 0.5, -1, "knee above load 0.5, the largest measured: it answers 99 of 100 requests within 100 ms; left out: load 0.8, 0.9,"},
		"all late":                            {func(r []*gpuprof.Run) { late(r[0]); late(r[1]); late(r[2]); late(r[3]) }, -1, -1, "no knee: at every load the sender was late"},
		"in time though the sender was late":  {func(r []*gpuprof.Run) { unsure(r[2]) }, 0.8, -1, "knee at load 0.8, the largest with 99 of 100 requests within 100 ms"},
		"not in time and the sender was late": {func(r []*gpuprof.Run) { unsure(r[3]) }, 0.8, -1, "knee above load 0.8, the largest measured: it answers 99 of 100 requests within 100 ms; left out: load 0.9, where the sender was late"},
		"two limits":                          {func(r []*gpuprof.Run) { r[1].Requests.SLO = 0.2 }, -1, -1, "several values"},
	} {
		runs := fixture.Loaded()
		c.change(runs)
		curves, only := sweep.Loads(runs)
		if len(curves) != 1 || !only {
			t.Fatalf("%s: %d curves, %v", name, len(curves), only)
		}
		knee, above := curves[0].Knee()
		if knee != c.knee || above != c.above || !strings.Contains(curves[0].Text(), c.text) {
			t.Errorf("%s: knee %g, above %g, %q", name, knee, above, curves[0].Text())
		}
		if b := curves[0].Bar(); (b != nil) != (knee > 0 && above < 0) || b != nil && (math.Abs(b.Parts[0].Value*b.Total-knee) > 1e-9 || !b.Drawable()) {
			t.Errorf("%s: knee %g has the bar %+v", name, knee, b)
		}
	}
}

func TestLoads(t *testing.T) {
	runs := fixture.Loaded()
	if curves, _ := sweep.Loads(runs[:1]); curves != nil {
		t.Error("one load is no curve")
	}
	if curves, _ := sweep.Loads(fixture.Sweep()); curves != nil {
		t.Error("runs that serve nothing have a curve")
	}
	runs[2].Requests.Waits = loadtest.WaitsRoom // hides latency
	runs[3].Knobs["batch"] = "7"
	curves, only := sweep.Loads(runs)
	if only || len(curves) != 2 || len(curves[0].Points) != 2 || len(curves[1].Points) != 1 || !strings.Contains(curves[1].Label, "7") {
		t.Errorf("%+v, %v", curves, only)
	}
}
