package results

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// jmhRow is a benchmark of JMH -rf json. A fork is a process, so each list of rawData is a run and its iterations
// are the samples. In mode "sample" an iteration is a histogram, whose median becomes the sample.
type jmhRow struct {
	Version   string               `json:"jmhVersion"`
	Benchmark string               `json:"benchmark"`
	Mode      string               `json:"mode"`
	Threads   int                  `json:"threads"`
	JDK       string               `json:"jdkVersion"`
	VM        string               `json:"vmName"`
	Params    map[string]string    `json:"params"`
	Primary   jmhMetric            `json:"primaryMetric"`
	Secondary map[string]jmhMetric `json:"secondaryMetrics"`
}

type jmhMetric struct {
	Score     figure          `json:"score"`
	Unit      string          `json:"scoreUnit"`
	Raw       [][]figure      `json:"rawData"`
	Histogram [][][][2]figure `json:"rawDataHistogram"` // by fork and iteration: pairs of a value and its count
}

// jmhModes maps each measurement mode to its direction.
var jmhModes = map[string]direction{"thrpt": higherBetter, "avgt": lowerBetter, "sample": lowerBetter, "ss": lowerBetter}

func isJMH(d jsonValue) bool { return d.hasMembers("benchmark", "mode", "primaryMetric") }

func readJMH(p *parsed, d jsonValue) error {
	var row jmhRow
	if err := d.decode(&row); err != nil {
		return err
	}
	is, known := jmhModes[row.Mode]
	switch {
	case row.Benchmark == "":
		return fmt.Errorf("a benchmark has no name")
	case !known:
		return gpuprof.Errorf(nil, "benchmark %s: its mode %q is not known", row.Benchmark, row.Mode).WithFix("run it in the mode thrpt, avgt, sample or ss")
	}
	p.setFact("tool", "JMH "+row.Version)
	p.setFact("jdk", row.VM+" "+row.JDK)
	name := jmhName(&row)
	if err := p.jmhMetric(name, &row.Primary, is); err != nil {
		return fmt.Errorf("benchmark %s: %w", name, err)
	}
	for _, k := range slices.Sorted(maps.Keys(row.Secondary)) {
		m := row.Secondary[k]
		// A profiler's figure has no direction; a method of a group has the direction of the group.
		of := undirected
		if m.Unit == row.Primary.Unit {
			of = is
		}
		if m.Score.set && math.IsNaN(m.Score.value) { // NaN: the profiler had nothing to count
			continue
		}
		if err := p.jmhMetric(name+":"+k, &m, of); err != nil {
			return fmt.Errorf("benchmark %s: %s: %w", name, k, err)
		}
	}
	return nil
}

// jmhName formats "package.Class.method[n=10]:avgt"; it includes the number of threads if there are several.
func jmhName(row *jmhRow) string {
	var params []string
	for _, k := range slices.Sorted(maps.Keys(row.Params)) {
		params = append(params, k+"="+row.Params[k])
	}
	if row.Threads > 1 {
		params = append(params, "threads="+strconv.Itoa(row.Threads))
	}
	name := row.Benchmark
	if len(params) > 0 {
		name += "[" + strings.Join(params, " ") + "]"
	}
	return document.MaskText(name + ":" + row.Mode)
}

// jmhUnit converts units such as ops/ms and ns/op to base units; other units stay.
func jmhUnit(unit string) (scale float64, base string) {
	scales := map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "hr": 3600, "day": 86400}
	if per, ok := strings.CutPrefix(unit, "ops/"); ok && scales[per] > 0 {
		return 1 / scales[per], "ops/s"
	}
	if what, ok := strings.CutSuffix(unit, "/op"); ok && scales[what] > 0 {
		return scales[what], "s"
	}
	return 1, unit
}

func (p *parsed) jmhMetric(name string, m *jmhMetric, is direction) error {
	scale, unit := jmhUnit(m.Unit)
	runs := m.Raw
	if len(m.Histogram) > 0 {
		runs = nil
		for _, fork := range m.Histogram {
			var medians []figure
			for _, iteration := range fork {
				if v, ok := histogramMedian(iteration); ok {
					medians = append(medians, figure{value: v, set: true})
				}
			}
			runs = append(runs, medians)
		}
	}
	if len(runs) == 0 {
		if !m.Score.set {
			return fmt.Errorf("it has no score")
		}
		runs = [][]figure{{m.Score}}
	}
	for _, run := range runs {
		p.addRun(name, unit, is, valuesOf(run, scale)...)
	}
	return nil
}

// histogramMedian returns the value at which the counts reach one half.
func histogramMedian(bins [][2]figure) (float64, bool) {
	bins = slices.Clone(bins)
	slices.SortStableFunc(bins, func(a, b [2]figure) int { return cmp.Compare(a[0].value, b[0].value) })
	total, seen := 0.0, 0.0
	for _, b := range bins {
		if !(b[1].value >= 0) {
			return 0, false
		}
		total += b[1].value
	}
	for _, b := range bins {
		if seen += b[1].value; seen >= total/2 && total > 0 {
			return b[0].value, true
		}
	}
	return 0, false
}
