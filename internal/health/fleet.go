package health

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Score is a judged figure of a device, in the form in which a fleet compares figures.
type Score struct {
	Metric string
	Log    float64 // natural logarithm, larger is better
	More   bool    // true if higher is better; false for times
	Slack  float64 // share by which the figure may be worse than the siblings' median
	Apart  float64 // difference of the natural logarithms of the two best rounds; 0 with one round
}

// Best merges two measurements of the same devices in the same order. It returns further, with the two best values of
// each judged figure from both measurements. If further has no error, it gets the error of before.
func Best(before, further []Card) []Card {
	for i := range further {
		if i >= len(before) || before[i].Device != further[i].Device {
			continue
		}
		c, old := &further[i], &before[i]
		if c.Error == "" {
			c.Error, c.Err = old.Error, old.Err
		}
		for k := range c.Metrics {
			m := &c.Metrics[k]
			had, ok := old.Metric(m.Name)
			switch better := gpuprof.Number(rules[m.Name].better); {
			case !ok || better == 0:
			case !m.isKnown():
				*m = had
			case better*(had.Value-m.Value) > 0:
				if had.Second == 0 || better*(m.Value-had.Second) > 0 {
					had.Second = m.Value
				}
				*m = had
			default:
				m.Second = had.Value
			}
		}
	}
	return further
}

// Scores returns the judged figures of a device that have a value.
func Scores(c *Card) []Score {
	var out []Score
	for _, name := range judgedMetrics() {
		if m, ok := c.Metric(name); ok {
			r := rules[name]
			s := Score{Metric: name, Log: float64(r.better) * math.Log(float64(m.Value)), More: r.better > 0, Slack: r.slack}
			if m.Second > 0 {
				s.Apart = math.Abs(math.Log(float64(m.Second / m.Value)))
			}
			out = append(out, s)
		}
	}
	return out
}

// Explain returns why a device's figure is worse than a typical sibling's. A condition of both is no cause. evidence is
// false if the cause was not observed.
func Explain(c *Card, metric string, typical *Card) (cause string, evidence bool, fix string) {
	return explain(c, metric, []Condition{typical.Condition})
}

// Siblings returns a key that is equal for comparable devices: name, driver, power limit and MIG state.
func (c *Card) Siblings() string {
	return strings.Join([]string{c.Name, c.Facts["driver"], fmt.Sprint(c.Condition.PowerLimitW), fmt.Sprint(c.Condition.MIG)}, "\x00")
}
