package metrics

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// families are the metrics by unit, in output order. OpenMetrics requires that a name ends in its unit.
var families = []struct{ unit, name, ends, help string }{
	{"s", "gpuprof_result_seconds", "seconds", "Time of a metric of a result."},
	{"B", "gpuprof_result_bytes", "bytes", "Bytes of a metric of a result."},
	{"J", "gpuprof_result_joules", "joules", "Energy of a metric of a result."},
	{"", "gpuprof_result_value", "", "Another metric of a result, in the unit of its label."},
}

// WriteOpenMetrics writes the figures of runs as OpenMetrics 1.0 text.
func WriteOpenMetrics(w io.Writer, runs []*gpuprof.Run) error {
	figures, err := runFigures(runs)
	if err != nil {
		return err
	}
	return writeOpenMetrics(w, figures)
}

// WriteComparisonOpenMetrics writes the figures of a comparison's new side as OpenMetrics 1.0 text.
func WriteComparisonOpenMetrics(w io.Writer, c *compare.Comparison) error {
	figures, err := comparisonFigures(c)
	if err != nil {
		return err
	}
	return writeOpenMetrics(w, figures)
}

func writeOpenMetrics(w io.Writer, figures []figure) error {
	out := bufio.NewWriter(w)
	left := figures
	for _, family := range families {
		var here, others []figure
		for _, f := range left {
			if f.unit == family.unit || family.unit == "" {
				here = append(here, f)
			} else {
				others = append(others, f)
			}
		}
		left = others
		if len(here) == 0 {
			continue
		}
		fmt.Fprintf(out, "# TYPE %s gauge\n", family.name) // Flush returns the error
		if family.ends != "" {
			fmt.Fprintf(out, "# UNIT %s %s\n", family.name, family.ends)
		}
		fmt.Fprintf(out, "# HELP %s %s\n", family.name, family.help)
		for _, f := range here {
			for _, of := range []struct {
				name  string
				value float64
			}{{"median", f.value}, {"lowest", f.low}, {"highest", f.high}} {
				labels := [][2]string{{"benchmark", f.benchmark}, {"metric", f.metric}, {"process", of.name}}
				if family.unit == "" {
					labels = append(labels, [2]string{"unit", f.unit})
				}
				fmt.Fprintf(out, "%s{%s} %s\n", family.name, view.MetricLabels(labels), strconv.FormatFloat(of.value, 'g', -1, 64))
			}
		}
	}
	fmt.Fprintln(out, "# EOF")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing metrics for Prometheus: %w", err)
	}
	return nil
}
