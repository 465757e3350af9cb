//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package html_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/page"
)

// TestTimelineStaysLight: a trace of half a million operations makes a page
// of ordinary size that still accounts for every one of them.
func TestTimelineStaysLight(t *testing.T) {
	const n = 500_000
	tr := &model.Trace{Path: "big.json", Format: model.Kineto, Rank: -1, Names: []string{"k0", "k1", "k2"}, Devices: []model.Device{{ID: 0}}}
	for i := range int64(n) {
		tr.GPU = append(tr.GPU, model.GPU{Start: i * 1000, End: i*1000 + 300 + i%7*90, Name: model.NameID(i % 3), Kind: model.Kernel, Launch: -1, Stream: 7})
	}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writePage(&b)(page.Analysis(a, []*analyze.Index{x})); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 3<<20 {
		t.Errorf("the page has %d bytes", b.Len())
	}
	var d timeline
	if err := json.Unmarshal([]byte(element(t, b.String(), "timeline-data")), &d); err != nil {
		t.Fatal(err)
	}
	for i, r := range d.Rows {
		count, covered := boxes(t, d, i)
		if r.Name == "device 0 stream 7" && count != n {
			t.Errorf("%d operations drawn, want %d", count, n)
		}
		if covered > d.Span {
			t.Errorf("row %s covers %d of %d ns", r.Name, covered, d.Span)
		}
	}
	if !strings.Contains(b.String(), "are drawn as one") {
		t.Error("the page does not say that operations were merged")
	}
}
