package page

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// wordsCell returns a cell with a text and no figure.
func wordsCell(s string) Cell { return Cell{Text: s} }

// amountCell returns a cell with a figure's text and its value in base units. The cell is empty if either is missing.
func amountCell(text string, v float64, unit string) Cell {
	if text == view.None || text == gpuprof.Unknown {
		return Cell{}
	}
	return Cell{Text: text, Value: v, Unit: unit}
}

// medianCell returns a cell with the median of a series of seconds; empty for nil.
func medianCell(s *gpuprof.Series) Cell {
	if s == nil {
		return Cell{}
	}
	return amountCell(view.Cell(s), s.Median, "s")
}

// secondsCell returns a cell with a time in seconds; empty if unknown.
func secondsCell(v float64) Cell {
	if !(v > 0) {
		return Cell{}
	}
	return amountCell(gpuprof.FormatSeconds(v), v, "s")
}
