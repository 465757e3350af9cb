//go:build !race

// Under the race detector arithmetic in one goroutine takes ten times as long; it finds nothing there.

package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSentinelScenarios: the rates of the design in fewer series.
func TestSentinelScenarios(t *testing.T) {
	const series = 30
	machine, wrongly, later, named := sentinelRates(series, 0.01)
	if machine < series*9/10 || wrongly > 0 || later < series*8/10 || named < later {
		t.Errorf("of %d: machine %d, wrongly machine %d, later code found %d, named %d", series, machine, wrongly, later, named)
	}
}

// TestAlarmsAsDesigned: 60 looks at series without a change give hardly ever an alarm,
// and a step of 10 % gives one within some sessions.
func TestAlarmsAsDesigned(t *testing.T) {
	const series = 12
	falsely, found := 0, 0
	for i := range series {
		rng := rand.New(rand.NewPCG(uint64(i), 12))
		values := noisy(rng, 60, 0.02, 0.3)
		if alarmsIn(values, 20) > 0 {
			falsely++
		}
		if n := alarmsIn(stepped(values, 40, 1.10), 20); n >= 41 {
			found++
		}
	}
	if falsely > 1 || found < series-2 {
		t.Errorf("of %d: %d false alarms, %d steps found", series, falsely, found)
	}
}

// TestSlowLeak: three steps of 2.5 % each pass a threshold of 5 %, and are an alarm
// together; back at the old level there is none.
func TestSlowLeak(t *testing.T) {
	values := make([]float64, 80)
	for i := range values {
		values[i] = math.Pow(1.025, float64(min(i/20, 3))) * (1 + 0.0005*float64(i%3))
	}
	tr := trendOf(values, nil)
	tr.analyse(Options{Watch: true}.fillDefaults())
	m := tr.Metrics[0]
	if len(m.Changes) != 3 || len(m.Alarms) == 0 || float64(m.Alarms[0].Ratio) < 1.07 {
		t.Fatalf("changes %+v, alarms %+v", m.Changes, m.Alarms)
	}
	tr = trendOf(slices.Concat(values, values[:20]), nil)
	tr.analyse(Options{Watch: true}.fillDefaults())
	if m := tr.Metrics[0]; len(m.Alarms) != 0 {
		t.Errorf("alarms after it was repaired: %+v", m.Alarms)
	}
	tr = trendOf(values, nil)
	tr.analyse(Options{Watch: true, Since: commitAt(70).ID}.fillDefaults())
	if m := tr.Metrics[0]; len(m.Alarms) != 0 {
		t.Errorf("alarms about what is known: %+v", m.Alarms)
	}
}
