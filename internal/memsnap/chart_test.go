//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// The frames of a moment are inside their callers' and add up to the live bytes; its segments add up to the reserved
// bytes, and their pieces to the live bytes in them.
func TestCharts(t *testing.T) {
	for _, name := range fixtures(t) {
		d := &analyzed(t, fixture(t, name)).Devices[0]
		for _, m := range []Moment{d.Peak, d.End} {
			checkCalls(t, name, &m)
			checkSegments(t, name, &m)
		}
	}
}

func checkCalls(t *testing.T, name string, m *Moment) {
	t.Helper()
	var top int64
	var above []Call // the last frame of each depth
	for _, c := range m.Calls {
		if c.Where == "" || c.From >= c.To || c.Depth > len(above) || c.Depth >= deepestCall {
			t.Fatalf("%s: %+v below %+v", name, c, above)
		}
		if c.Depth == 0 {
			top += c.To - c.From
		} else if p := above[c.Depth-1]; c.From < p.From || c.To > p.To {
			t.Errorf("%s: %+v is not within %+v", name, c, p)
		}
		if c.Depth < len(above) && c.From < above[c.Depth].To {
			t.Errorf("%s: %+v and %+v overlap", name, c, above[c.Depth])
		}
		above = append(above[:c.Depth], c)
	}
	if top > m.Requested || float64(top) < 0.9*float64(m.Requested) {
		t.Errorf("%s, event %d: frames hold %d of %d bytes", name, m.Event, top, m.Requested)
	}
}

func checkSegments(t *testing.T, name string, m *Moment) {
	t.Helper()
	var bytes, live int64
	for _, g := range m.Segments {
		bytes, live = bytes+g.Bytes, live+g.Live
		last := int64(0)
		for _, p := range g.Pieces {
			if p.From < last || p.To <= p.From || p.To > g.Bytes || p.Category == "" {
				t.Errorf("%s: piece %+v of %d bytes, after %d", name, p, g.Bytes, last)
			}
			last = p.To
		}
	}
	if m.MoreSegments == 0 && (bytes != m.Reserved || live != m.Rounded) || bytes > m.Reserved {
		t.Errorf("%s, event %d: segments of %d bytes hold %d, and %d are reserved, %d live", name, m.Event, bytes, live, m.Reserved, m.Rounded)
	}
}

// However many blocks and stacks there are, a document has a bounded number of pieces and frames.
func TestChartsAreBounded(t *testing.T) {
	r := memtest.New(2, 15)
	for i := range 30_000 {
		b := r.Alloc(int64(512+512*(i%3)), stack(i%500))
		if i%2 == 0 {
			r.Free(b, nil)
		}
	}
	m := analyzed(t, mustRead(t, memtest.Python(r.Snapshot(), 4))).Devices[0].Peak
	pieces := 0
	for _, g := range m.Segments {
		pieces += len(g.Pieces)
	}
	if pieces == 0 || pieces > 4*finest || len(m.Calls) > deepestCall*leastCalled {
		t.Errorf("%d pieces, %d frames", pieces, len(m.Calls))
	}
}
