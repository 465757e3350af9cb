package results

import (
	"fmt"
	"math"
	"testing"
)

// A time per operation is one metric, in whatever unit a line has it, also where it is 0.
func TestUnitsOfTime(t *testing.T) {
	for unit, value := range map[string]string{"ns/op": "2500000", "us/op": "2500", "µs/op": "2500", "ms/op": "2.5", "s/op": "0.0025", "sec/op": "0.0025"} {
		c, err := sniff(fmt.Appendf(nil, "BenchmarkX 100 %s %s 7 allocs/op\nBenchmarkX 100 0 %s 7 allocs/op\n", value, unit, unit), "x.txt", noSideFiles)
		if err != nil {
			t.Fatal(err)
		}
		s := c.parsed.index["X"]
		if s == nil || s.unit != "s" || len(s.runs) != 2 || math.Abs(s.runs[0][0]-0.0025) > 1e-12 || s.runs[1][0] != 0 || len(c.parsed.series) != 2 {
			t.Errorf("%s: %v", unit, brief(c.parsed))
		}
		if _, err := sniff([]byte("BenchmarkX 100 -1 "+unit+"\n"), "x.txt", noSideFiles); err == nil {
			t.Errorf("a time of -1 %s is read", unit)
		}
	}
}
