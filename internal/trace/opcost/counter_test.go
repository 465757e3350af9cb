package opcost_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// event is an operator as PyTorch's profiler recorded it.
type event struct {
	Name    string          `json:"name"`
	Depth   int             `json:"depth"`
	Dims    json.RawMessage `json:"Input Dims"`
	Types   json.RawMessage `json:"Input type"`
	Strides json.RawMessage `json:"Input Strides"`
	Values  json.RawMessage `json:"Concrete Inputs"`
}

func (e *event) cost() (opcost.Cost, opcost.Reason) {
	text := strings.Join([]string{string(e.Dims), string(e.Types), string(e.Strides), string(e.Values)}, opcost.Separator)
	args, _ := opcost.Parse(text)
	return opcost.Of(e.Name, args, opcost.Hints{Element: 4})
}

// recordedCases reads what scripts/record/record_operator_costs.py wrote with PyTorch 2.9.1 on a CPU.
func recordedCases(t *testing.T) (cases []struct {
	Case, Operator, Reason string
	Counter, FLOPs, Bytes  *float64
	Events                 []event
},
) {
	t.Helper()
	text, err := os.ReadFile("testdata/operators.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// The FLOPs of the innermost operators with a model equal those of PyTorch's counter, or what is written beside it with
// the reason; the bytes of an operator equal those counted by hand.
func TestAgainstCounter(t *testing.T) {
	cases := recordedCases(t)
	if len(cases) < 46 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			if c.FLOPs == nil || *c.FLOPs != *c.Counter && c.Reason == "" {
				t.Fatalf("differs from the counter without a reason")
			}
			flops, bytes, found := 0.0, 0.0, false
			for i := range c.Events {
				e := &c.Events[i]
				cost, reason := e.cost()
				if opcost.Known(e.Name) && reason != "" {
					t.Errorf("%s: %s", e.Name, reason)
				}
				if e.Name == c.Operator {
					bytes, found = cost.Bytes, true
				}
				if cost.FLOPs > 0 && !scatters(e.Name) && innermost(c.Events, i) {
					flops += cost.FLOPs
				}
			}
			if flops != *c.FLOPs {
				t.Errorf("%v FLOPs, want %v", flops, *c.FLOPs)
			}
			if c.Bytes != nil && (!found || bytes != *c.Bytes) {
				t.Errorf("%s moves %v bytes, want %v", c.Operator, bytes, *c.Bytes)
			}
		})
	}
}

func scatters(name string) bool {
	return strings.HasPrefix(name, "aten::index_add") || strings.HasPrefix(name, "aten::scatter")
}

// innermost reports whether no operator with FLOPs is inside event i.
func innermost(events []event, i int) bool {
	for k := i + 1; k < len(events) && events[k].Depth > events[i].Depth; k++ {
		if cost, _ := events[k].cost(); cost.FLOPs > 0 {
			return false
		}
	}
	return true
}
