package page

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// words is a cell that holds no figure.
func words(s string) Cell { return Cell{Text: s} }

// amount is a figure as it is printed, with the value it was printed from.
func amount(text string, v float64, unit string) Cell {
	if text == view.None {
		return Cell{Text: text}
	}
	return Cell{Text: text, Value: v, Unit: unit}
}

// median is the median of a series of seconds; none where nothing was measured.
func median(s *gpuprof.Series) Cell {
	if s == nil {
		return Cell{Text: view.None}
	}
	return amount(view.Cell(s), s.Median, "s")
}

// seconds is a time; none where it is not known.
func seconds(v float64) Cell {
	if !(v > 0) {
		return Cell{Text: view.None}
	}
	return amount(view.Seconds(v), v, "s")
}
