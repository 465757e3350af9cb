package record

import (
	"testing"
	"time"
)

// A recording has enough once its steps, and those before them, are there and took a while.
func TestEnough(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		seen  stepsSeen
		exact bool
		want  bool
	}{
		"none":                            {stepsSeen{fresh: true}, false, false},
		"all of them":                     {stepsSeen{steps: 15, period: 200 * ms, fresh: true}, false, true},
		"one is missing":                  {stepsSeen{steps: 14, period: 200 * ms, fresh: true}, false, false},
		"short ones":                      {stepsSeen{steps: 15, period: 2 * ms, fresh: true}, false, false},
		"many short ones":                 {stepsSeen{steps: 1000, period: 2 * ms, fresh: true}, false, true},
		"of a start that is over":         {stepsSeen{steps: 1000, period: 2 * ms}, false, false},
		"long ones, one is missing":       {stepsSeen{steps: 5, period: 20_000 * ms, fresh: true}, false, false},
		"long ones, three and three":      {stepsSeen{steps: 6, period: 20_000 * ms, fresh: true}, false, true},
		"long ones, all to be left out":   {stepsSeen{steps: 12, period: 20_000 * ms, fresh: true}, true, false},
		"a step that takes longer":        {stepsSeen{steps: 4, period: 90_000 * ms, fresh: true}, false, true},
		"the first is no steady one, too": {stepsSeen{steps: 3, period: 90_000 * ms, fresh: true}, false, false},
	} {
		o := &Options{Steps: 5, Skip: DefaultSkip, SkipExact: c.exact, Window: 2 * time.Second, WindowAfter: 20 * time.Second}
		if got := c.seen.hasEnough(o); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
