package history

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuprof/gpuprof"
)

// TestDocument: a history that was written is read again as it was, and one that names
// sessions which are not there is refused.
func TestDocument(t *testing.T) {
	s, _ := filled(t, 24)
	r := reported(t, s, Options{Margin: 0.02, Tool: gpuprof.Tool{Name: "gpuprof"}})
	if len(r.Trends) != 1 || len(r.Trends[0].Metrics[0].Changes) != 1 {
		t.Fatalf("%+v", r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(text, "h.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again, cmpopts.IgnoreUnexported(Trend{}, Metric{}), cmp.Comparer(func(a, b gpuprof.Number) bool { return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b)) })); diff != "" {
		t.Error(diff)
	}
	for name, harm := range map[string]func(*Trend){
		"change beyond":  func(t *Trend) { t.Metrics[0].Changes[0].At = len(t.Sessions) },
		"change first":   func(t *Trend) { t.Metrics[0].Changes[0].At = 0 },
		"level beyond":   func(t *Trend) { t.Metrics[0].Levels[0].Last = len(t.Sessions) },
		"level turned":   func(t *Trend) { t.Metrics[0].Levels[0].First = t.Metrics[0].Levels[0].Last + 1 },
		"value too many": func(t *Trend) { t.Metrics[0].Values = append(t.Metrics[0].Values, 1) },
		"class before":   func(t *Trend) { t.Classes[0].First = -1 },
		"sentinel":       func(t *Trend) { t.Sentinel.Values = []gpuprof.Number{1} },
		"alarm":          func(t *Trend) { t.Metrics[0].Alarms = []Alarm{{At: 99}} },
		"no session":     func(t *Trend) { *t = Trend{} },
	} {
		r, err := Decode(text, "h.json")
		if err != nil {
			t.Fatal(err)
		}
		harm(&r.Trends[0])
		bad, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(bad, "h.json"); err == nil || !strings.Contains(err.Error(), "do not fit its sessions") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
