package results

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
)

// bmfMetric is a value of the Bencher Metric Format, in which each benchmark is an object with a value per measure.
// The file has neither units nor directions; Bencher's own measures have both (bencher.dev, "Measures").
type bmfMetric struct {
	Value figure `json:"value"`
}

// bmfMeasures maps Bencher's own measures to their unit and the factor to base units.
var bmfMeasures = map[string]struct {
	scale float64
	unit  string
	is    direction
}{
	"latency":          {1e-9, "s", lowerBetter}, // in nanoseconds
	"throughput":       {1, "ops/s", higherBetter},
	"build-time":       {1, "s", lowerBetter},
	"file-size":        {1, "B", lowerBetter},
	"instructions":     {1, "instructions", lowerBetter},
	"estimated-cycles": {1, "cycles", lowerBetter},
}

// isBMF reports whether every member is an object of objects with a value. It stops at the first mismatch.
func isBMF(d jsonValue) bool {
	if len(d.member) == 0 {
		return false
	}
	for _, raw := range d.member {
		measures := 0
		if raw[0] != '{' || !everyMember(raw, func(measure []byte) bool {
			measures++
			return measure[0] == '{' && !everyMember(measure, func([]byte) bool { return true }, "value")
		}) || measures == 0 {
			return false
		}
	}
	return true
}

// everyMember reports whether pass accepts the value of every member of an object, and no member has a name listed in
// not.
func everyMember(object []byte, pass func(value []byte) bool, not ...string) bool {
	all := true
	document.JSONMembers(object, func(key string, value []byte) bool {
		all = pass(value) && !slices.Contains(not, key)
		return all
	})
	return all
}

func readBMF(p *parsed, d jsonValue) error {
	var f map[string]map[string]bmfMetric
	if err := d.decode(&f); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, slug := range slices.Sorted(maps.Keys(f[name])) {
			measure, known := bmfMeasures[slug]
			if !known {
				measure.scale = 1
			}
			p.addRun(strings.TrimSuffix(name+":"+slug, ":latency"), measure.unit, measure.is, f[name][slug].Value.value*measure.scale)
		}
	}
	return nil
}
