//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package report_test

import (
	"testing"
)

// TestEveryDocumentReadsTheSame: no format of a document has a number that the document does
// not have, or lacks one that its page has, and no figure says or draws another.
func TestEveryDocumentReadsTheSame(t *testing.T) {
	for _, g := range everyDocument(t) {
		t.Run(g.name, func(t *testing.T) {
			truth := truthOf(g)
			faults := unfounded(g.page, truth)
			for format, text := range written(t, g.page) {
				faults = append(faults, wantedOf(g.page, format).misprints(printedText(format, text))...)
			}
			with := truth.with(g.page)
			for format, text := range g.files {
				faults = append(faults, misfiled(with, format, text)...)
			}
			for name, f := range g.figures {
				faults = append(faults, misdrawn(g, with, name, f)...)
			}
			for _, f := range faults {
				t.Error(f)
			}
		})
	}
}
