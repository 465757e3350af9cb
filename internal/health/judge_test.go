package health

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
)

// sound is a source that decides and reports no fault.
func sound() []Source { return []Source{{Name: SourceECC, Answer: NoFault, Decides: true}} }

// card is a healthy device.
func card(device string) Card {
	c := Card{Device: device, Name: "NVIDIA Test", Sources: sound(), Condition: Condition{LinkWidth: 16, LinkWidthMax: 16, LinkGen: 5, LinkGenMax: 5, PowerLimitW: 700, PowerBaseW: 700}}
	for name, v := range map[string]float64{
		"copy": 4e12, "h2d_pinned": 55e9, "h2d_pageable": 10e9, "d2h_pinned": 54e9, "d2h_pageable": 9e9, "gemm_fp32": 50e12, "gemm_tf32": 400e12, "gemm_bf16": 700e12,
		"launch": 6e-6, "launch_interval": 2e-6, "event_pair": 1.5e-6, "sustained": 650e12, "sm_clock": 1.7e9, "power": 690, "temperature": 65,
	} {
		c.Set(name, v)
	}
	return c
}

func scale(c *Card, metric string, by float64) {
	for i := range c.Metrics {
		if c.Metrics[i].Name == metric {
			c.Metrics[i].Value *= gpuprof.Number(by)
		}
	}
}

func four() []Card { return []Card{card("cuda:0"), card("cuda:1"), card("cuda:2"), card("cuda:3")} }

func judge(t *testing.T, cards []Card, r *Ranges) *Report {
	t.Helper()
	rep, err := Judge(nil, cards, r, gpuprof.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.ExitCode != rep.Verdict.ExitCode() {
		t.Errorf("verdict %s with exit code %d", rep.Verdict, rep.ExitCode)
	}
	return rep
}

func TestSiblings(t *testing.T) {
	for name, c := range map[string]struct {
		change  func([]Card)
		verdict Verdict
		off     string // device metric
		cause   string
	}{
		"all alike":                {func([]Card) {}, Healthy, "", ""},
		"4.9 % below":              {func(c []Card) { scale(&c[2], "copy", 0.951) }, Healthy, "", ""},
		"5.1 % below":              {func(c []Card) { scale(&c[2], "copy", 0.949) }, Unhealthy, "cuda:2 copy", "usually"},
		"above":                    {func(c []Card) { scale(&c[2], "copy", 1.3) }, Healthy, "", ""},
		"product":                  {func(c []Card) { scale(&c[1], "gemm_bf16", 0.9) }, Unhealthy, "cuda:1 gemm_bf16", "usually a power cap"},
		"clock":                    {func(c []Card) { scale(&c[3], "sm_clock", 0.9) }, Unhealthy, "cuda:3 sm_clock", "usually"},
		"launch twice as long":     {func(c []Card) { scale(&c[0], "launch", 2) }, Unhealthy, "cuda:0 launch", "CPU"},
		"launch a little longer":   {func(c []Card) { scale(&c[0], "launch", 1.3) }, Healthy, "", ""},
		"launch shorter":           {func(c []Card) { scale(&c[0], "launch", 0.3) }, Healthy, "", ""},
		"less power is no fault":   {func(c []Card) { scale(&c[0], "power", 0.5) }, Healthy, "", ""},
		"warmth alone is no fault": {func(c []Card) { scale(&c[0], "temperature", 1.3) }, Healthy, "", ""},
		"power cap": {func(c []Card) {
			scale(&c[1], "sustained", 0.8)
			c[1].Condition.PowerLimitW = 500
		}, Unhealthy, "cuda:1 sustained", "the limit is 500 W, the default 700 W"},
		"a cap that all share explains nothing": {func(c []Card) {
			scale(&c[1], "sustained", 0.8)
			for i := range c {
				c[i].Condition.PowerLimitW = 500
				c[i].Condition.ThrottledS = map[string]float64{"power-cap": 8}
			}
		}, Unhealthy, "cuda:1 sustained", "usually"},
		"capped": {func(c []Card) {
			scale(&c[1], "sustained", 0.8)
			c[1].Condition.ThrottledS = map[string]float64{"power-cap": 8}
		}, Unhealthy, "cuda:1 sustained", "held the clocks down for 8.00 s"},
		"heat": {func(c []Card) {
			scale(&c[1], "sustained", 0.8)
			c[1].Condition.ThrottledS = map[string]float64{"power-cap": 8, "hw-thermal": 3}
		}, Unhealthy, "cuda:1 sustained", "heat: the clocks were held down for 3.00 s under load, at 65 C"},
		"a moment's cap explains nothing": {func(c []Card) {
			scale(&c[1], "sustained", 0.8)
			c[1].Condition.ThrottledS = map[string]float64{"power-cap": 0.01}
		}, Unhealthy, "cuda:1 sustained", "usually"},
		"link": {func(c []Card) {
			scale(&c[1], "h2d_pinned", 0.5)
			c[1].Condition.LinkGen = 4
		}, Unhealthy, "cuda:1 h2d_pinned", "16 lanes of 16 and generation 4 of 5"},
		"a low generation alone": {func(c []Card) { c[1].Condition.LinkGen = 1 }, Healthy, "", ""},
		"lanes alone":            {func(c []Card) { c[1].Condition.LinkWidth = 8 }, Unhealthy, "cuda:1 link_width", "8 lanes of 16"},
		"foreign": {func(c []Card) {
			scale(&c[1], "d2h_pinned", 0.5)
			n := 2
			c[1].Condition.Foreign = &n
		}, Unhealthy, "cuda:1 d2h_pinned", "foreign process: 2"},
		"foreign without harm": {func(c []Card) { n := 2; c[1].Condition.Foreign = &n }, Healthy, "", ""},
		"application clocks": {func(c []Card) {
			scale(&c[1], "gemm_fp32", 0.5)
			c[1].Condition.AppClockHz, c[1].Condition.AppBaseHz = 1.1e9, 1.9e9
		}, Unhealthy, "cuda:1 gemm_fp32", "1.10 GHz"},
		"mig": {func(c []Card) {
			scale(&c[1], "copy", 0.5)
			c[1].Condition.MIG = true
		}, Unhealthy, "cuda:1 copy", "MIG: the GPU's other instances"},
		"memory errors": {func(c []Card) { c[1].setSource(FaultOf(SourceECC, "2 uncorrected errors", FixReset)) }, Unhealthy, "cuda:1 memory_errors", "2 uncorrected"},
		"two faults of memory are one": {func(c []Card) {
			c[1].setSource(FaultOf(SourceECC, "2 uncorrected errors", FixReset))
			c[1].setSource(FaultOf(SourceRepair, "faulty memory waits", FixReset))
		}, Unhealthy, "cuda:1 memory_errors", "2 uncorrected errors; faulty memory waits"},
		"lost, and another failed": {func(c []Card) { c[1].setSource(FaultOf(SourceNVML, "lost", FixRestart)); c[2].Error = "out of memory" }, Unhealthy, "cuda:1 lost", "lost"},
		"not checked":              {func(c []Card) { c[1].Sources = []Source{{Name: SourceECC, Answer: Unanswered, Decides: true}} }, NotChecked, "", ""},
		"no source":                {func(c []Card) { c[1].Sources = nil }, NotChecked, "", ""},
		"failed":                   {func(c []Card) { c[1].Error = "lost" }, Failed, "", ""},
		"other name":               {func(c []Card) { c[1].Name = "NVIDIA Other" }, Unknown, "", ""},
		"unknown figure":           {func(c []Card) { scale(&c[1], "copy", math.NaN()) }, Healthy, "", ""},
		"pageable, 15 %":           {func(c []Card) { scale(&c[1], "h2d_pageable", 0.85) }, Healthy, "", ""},
		"pageable, 25 %":           {func(c []Card) { scale(&c[1], "h2d_pageable", 0.75) }, Unhealthy, "cuda:1 h2d_pageable", "socket"},
		"a zero is no rate":        {func(c []Card) { scale(&c[1], "copy", 0) }, Healthy, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cards := four()
			c.change(cards)
			r := judge(t, cards, nil)
			if r.Verdict != c.verdict || r.Reason == "" {
				t.Fatalf("verdict %s (%s), want %s; off %+v", r.Verdict, r.Reason, c.verdict, r.Off)
			}
			if c.off == "" {
				if len(r.Off) > 0 {
					t.Errorf("off: %+v", r.Off)
				}
				return
			}
			if len(r.Off) != 1 || r.Off[0].Device+" "+r.Off[0].Metric != c.off || !strings.Contains(r.Off[0].Cause, c.cause) || r.Off[0].Fix == "" {
				t.Errorf("off: %+v; want %s because of %q", r.Off, c.off, c.cause)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// With two devices each is compared with the other.
func TestTwoSiblings(t *testing.T) {
	cards := four()[:2]
	scale(&cards[1], "gemm_tf32", 0.9)
	r := judge(t, cards, nil)
	if r.Verdict != Unhealthy || len(r.Off) != 1 || r.Off[0].Device != "cuda:1" || math.Abs(float64(r.Off[0].Worse)-0.1) > 1e-9 || r.Off[0].Against != "siblings" {
		t.Errorf("%+v", r)
	}
}

func ranges(t *testing.T, metrics string) *Ranges {
	t.Helper()
	r, err := ParseRanges([]byte(`{"schema_version": "1.0.0", "devices": {"NVIDIA Test": {"provenance": "made up for a test", "metrics": {`+metrics+`}}}}`), "test.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestShippedRanges(t *testing.T) {
	one := func(change func(*Card)) []Card {
		c := card("cuda:0")
		change(&c)
		return []Card{c}
	}
	for name, c := range map[string]struct {
		metrics string
		change  func(*Card)
		verdict Verdict
		off     int
		note    string
	}{
		"no range":            {``, func(*Card) {}, Unknown, 0, ""},
		"within":              {`"copy": [3.9e12, 4.2e12], "launch": [3e-6, 8e-6]`, func(*Card) {}, Healthy, 0, ""},
		"below":               {`"copy": [3.9e12, 4.2e12]`, func(c *Card) { scale(c, "copy", 0.9) }, Unhealthy, 1, ""},
		"above is no fault":   {`"copy": [3.9e12, 4.2e12]`, func(c *Card) { scale(c, "copy", 1.2) }, Healthy, 0, "may be too narrow"},
		"slow launch":         {`"launch": [3e-6, 8e-6]`, func(c *Card) { scale(c, "launch", 2) }, Unhealthy, 1, ""},
		"quick launch":        {`"launch": [3e-6, 8e-6]`, func(c *Card) { scale(c, "launch", 0.1) }, Healthy, 0, "may be too narrow"},
		"other device":        {`"copy": [3.9e12, 4.2e12]`, func(c *Card) { c.Name = "NVIDIA Test PCIe" }, Unknown, 0, ""},
		"nothing comparable":  {`"gemm_fp32_own": [1, 2]`, func(*Card) {}, Unknown, 0, ""},
		"width without range": {``, func(c *Card) { c.Condition.LinkWidth = 4 }, Unhealthy, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := judge(t, one(c.change), ranges(t, c.metrics))
			if r.Verdict != c.verdict || len(r.Off) != c.off || !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("%+v", r)
			}
		})
	}
	// Found off by its siblings, a figure is not told twice; with all of them
	// slow alike, only the range shows it.
	cards := four()
	scale(&cards[1], "copy", 0.8)
	if r := judge(t, cards, ranges(t, `"copy": [3.9e12, 4.2e12]`)); len(r.Off) != 1 || r.Off[0].Against != "siblings" {
		t.Errorf("%+v", r.Off)
	}
	cards = four()
	for i := range cards {
		scale(&cards[i], "copy", 0.8)
	}
	if r := judge(t, cards, ranges(t, `"copy": [3.9e12, 4.2e12]`)); len(r.Off) != 4 || r.Off[0].Against != "range" {
		t.Errorf("%+v", r.Off)
	}
}

func TestJudgeRefusals(t *testing.T) {
	for _, facts := range []string{"true", "yes"} {
		cards := four()
		cards[3].Facts = map[string]string{"simulated": facts}
		if _, err := Judge(nil, cards, nil, gpuprof.Tool{}); !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "cuda:3") {
			t.Errorf("%v", err)
		}
	}
	if _, err := Judge(nil, nil, nil, gpuprof.Tool{}); !errors.Is(err, gpuprof.ErrDevice) {
		t.Errorf("%v", err)
	}
}

func TestParseRanges(t *testing.T) {
	for text, says := range map[string]string{
		`{`: "damaged",
		`{"schema_version": "1.0.0", "devices": {}} {}`:                                                     "more after",
		`{"schema_version": "2.0.0"}`:                                                                       "is newer than",
		`{"devices": {}}`:                                                                                   "no schema_version",
		`{"schema_version": "1.0.0", "device": {}}`:                                                         "names no kind",
		`{"schema_version": "1.0.0", "devices": {}, "notes": ""}`:                                           "damaged",
		`{"schema_version": "1.0.0", "devices": {"X": {"metrics": {"copy": [1, 2]}}}}`:                      "no provenance",
		`{"schema_version": "1.0.0", "devices": {"X": {"provenance": "p", "metrics": {"speed": [1, 2]}}}}`:  `"speed"`,
		`{"schema_version": "1.0.0", "devices": {"X": {"provenance": "p", "metrics": {"power": [1, 2]}}}}`:  "not judged",
		`{"schema_version": "1.0.0", "devices": {"X": {"provenance": "p", "metrics": {"copy": [2, 1]}}}}`:   "[2, 1]",
		`{"schema_version": "1.0.0", "devices": {"X": {"provenance": "p", "metrics": {"copy": [0, 1]}}}}`:   "above 0",
		`{"schema_version": "1.0.0", "devices": {"X": {"provenance": "p", "metrics": {"copy": ["a", 1]}}}}`: "damaged",
	} {
		if _, err := ParseRanges([]byte(text), "file.json"); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "file.json") {
			t.Errorf("%s: %v; want it to say %q", text, err, says)
		}
	}
}

// Whatever the figures: a device at or above all its siblings is never off, one
// below the slack of the lowest always is, and scaling all of them changes nothing.
func TestSiblingsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "devices")
		metric := rapid.SampledFrom(judgedMetrics()).Draw(t, "metric")
		r := rules[metric]
		v := rapid.SliceOfN(rapid.Float64Range(1, 2), n, n).Draw(t, "values")
		by := rapid.Float64Range(1e-9, 1e12).Draw(t, "scale")
		verdicts := [2]map[string]bool{{}, {}}
		var cards []Card
		for k, f := range []float64{by, 1} { // the plain ones last: they are looked at below
			k = 1 - k
			cards = nil
			for i := range n {
				c := Card{Device: string(rune('a' + i)), Name: "X"}
				c.Set(metric, v[i]*f)
				cards = append(cards, c)
			}
			rep, err := Judge(nil, cards, nil, gpuprof.Tool{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range rep.Off {
				verdicts[k][o.Device] = true
			}
		}
		for i := range n {
			name := string(rune('a' + i))
			worst, best := 0.0, math.Inf(1) // by how much it is worse than each of the others
			for j := range n {
				if j != i {
					w := r.worseShare(v[i], v[j])
					worst, best = max(worst, w), min(best, w)
				}
			}
			if worst <= 0 && verdicts[0][name] {
				t.Errorf("%s is off and none is better: %v", name, v)
			}
			// Rounding may tip a figure that lies on the limit.
			median, _ := siblingMedian(cards, i, metric)
			edge := math.Abs(r.worseShare(v[i], median)-r.slack) < 1e-9
			if verdicts[0][name] != verdicts[1][name] && !edge {
				t.Errorf("%s is off in one unit and not in another: %v", name, v)
			}
			if best > r.slack*(1+1e-9) && !verdicts[0][name] {
				t.Errorf("%s is not off and all are better by %g: %v", name, best, v)
			}
		}
	})
}
