package csv

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// History writes a row per session and metric, by trend and session. The last two columns are whether the session is
// analyzed, and the ratio by which the metric changed there.
func History(w io.Writer, r *history.Report) error {
	rows := [][]string{append(strings.Split(runfile.CSVHistoryMark, ","), "unit", "value", "analysed", "change")}
	for i := range r.Trends {
		t := &r.Trends[i]
		for k := range t.Metrics {
			m := &t.Metrics[k]
			changed := map[int]string{}
			for _, c := range m.Changes {
				changed[c.At] = finiteText(c.Ratio)
			}
			for at, v := range m.Values {
				s := &t.Sessions[at]
				if value := finiteText(v); value != "" {
					rows = append(rows, escapeFormulas([]string{t.Project, t.Benchmark, s.Class, s.Commit.ID, formatTime(s.Commit.Time), formatTime(s.Started), m.Name, m.Unit, value, strconv.FormatBool(s.LeftOut == ""), changed[at]}))
				}
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows) // flushes
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// finiteText formats a number; "" for NaN.
func finiteText(v gpuprof.Number) string {
	if math.IsNaN(float64(v)) {
		return ""
	}
	return formatNumber(float64(v))
}
