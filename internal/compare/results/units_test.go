package results

import (
	"fmt"
	"math"
	"testing"
)

// A time per operation is one metric, in whatever unit a line has it, also where it is 0.
func TestUnitsOfTime(t *testing.T) {
	for unit, value := range map[string]string{"ns/op": "2500000", "us/op": "2500", "µs/op": "2500", "ms/op": "2.5", "s/op": "0.0025", "sec/op": "0.0025"} {
		r, err := parseOne(fmt.Sprintf("BenchmarkX 100 %s %s 7 allocs/op\nBenchmarkX 100 0 %s 7 allocs/op\n", value, unit, unit), "x.txt", noSideFiles)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Metric("X")
		if m == nil || m.Unit != "s" || len(m.Runs) != 2 || math.Abs(m.Runs[0][0]-0.0025) > 1e-12 || m.Runs[1][0] != 0 || len(r.Metrics) != 2 {
			t.Errorf("%s: %v", unit, brief(r))
		}
		if _, err := parseOne("BenchmarkX 100 -1 "+unit+"\n", "x.txt", noSideFiles); err == nil {
			t.Errorf("a time of -1 %s is read", unit)
		}
	}
}
