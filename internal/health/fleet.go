package health

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Score is a judged figure of a device as a fleet compares it.
type Score struct {
	Metric string
	Log    float64 // natural logarithm, larger is better
	More   bool    // more of the figure is better; false of times
	Slack  float64 // share by which it may be worse than the siblings' median
	Apart  float64 // how far the logarithms of the two best rounds lie apart; 0 of one round
}

// Best joins a further measurement of the same devices, in the same order, to what was
// found before: of each figure that is judged the two best. What else a card says is
// the further one's, and an error of either stays.
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
			case !m.known():
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

// Scores are the figures of a device that are judged and known.
func Scores(c *Card) []Score {
	var out []Score
	for _, name := range judged() {
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

// Explain says why a figure of a device is off beside a typical sibling, which shows what
// explains nothing because both have it; evidence is false where the cause is only what
// usually explains such a figure.
func Explain(c *Card, metric string, typical *Card) (cause string, evidence bool, fix string) {
	return explain(c, metric, []Condition{typical.Condition})
}

// Siblings is the same text for devices that can be compared: of one name, driver, power
// limit and MIG state.
func (c *Card) Siblings() string {
	return strings.Join([]string{c.Name, c.Facts["driver"], fmt.Sprint(c.Condition.PowerLimitW), fmt.Sprint(c.Condition.MIG)}, "\x00")
}
