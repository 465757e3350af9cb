package page

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// snapped is an analysis with an out-of-memory error, a finding and a comparison.
func snapped() *memsnap.Analysis {
	m := memsnap.Moment{Event: 12, Step: 2, Requested: 30 << 20, Rounded: 31 << 20, Reserved: 40 << 20, FreeSplit: 5 << 20, FreeWhole: 4 << 20, FreeLargest: 4 << 20,
		Categories: []memsnap.Part{{Category: "activation", Bytes: 30 << 20, Blocks: 3}},
		Sites:      []memsnap.SiteBytes{{Where: "/home/u/train.py:12 in forward", Category: "activation", Bytes: 30 << 20, Blocks: 3, Step: 1, Stack: []string{"/home/u/train.py:12 in forward"}}}}
	d := memsnap.Device{Events: 20, Peak: m, End: m, PeakReserved: 40 << 20, Steps: []memsnap.Step{{Name: "a", Peak: 1, End: 1}, {Name: "b"}}, OOMs: []memsnap.Outage{{Moment: m, Request: 64 << 20, DeviceFree: 2 << 20, Cause: memsnap.CauseLive}},
		Check: memsnap.Check{FailedAt: 7, Reason: "the allocator did something else than the model"}}
	return &memsnap.Analysis{Inputs: []memsnap.Input{{Path: "dir/x.pickle", Settings: "expandable_segments:True"}}, Devices: []memsnap.Device{d, d},
		Findings: []memsnap.Finding{{Rule: gpuprof.RuleLeak, Severity: gpuprof.High, Title: "It grows.", ClaimBytes: 3 << 20, Of: "requested", Share: 0.1, Evidence: map[string]any{"grown_bytes": int64(5 << 20), "state_bytes_at_peak": int64(6 << 20)}, PyTorch: "loss.item()", Sites: m.Sites}},
		Before:   &memsnap.Before{Peak: 20 << 20, Changes: []memsnap.Change{{Where: "train.py:12 in forward", Category: "activation", Before: 31 << 20, After: 30 << 20}}}}
}

func TestMemoryPage(t *testing.T) {
	t.Parallel()
	p, err := Memory(snapped())
	if err != nil {
		t.Fatal(err)
	}
	text := allText(p)
	for _, want := range []string{
		"memory of x.pickle", "2 steps", "peak 30.0 MiB of tensors, 40.0 MiB reserved", "at the out-of-memory error, step 2 of 2", "64.0 MiB", "the device had 2.00 MiB free",
		"5.00 MiB free beside live blocks, 4.00 MiB in whole segments", "It grows. (x.pickle, device 0)", "3.00 MiB of the peak of requested bytes (10.0 %)", "grown 5.00 MiB", "state at peak 6.00 MiB", "loss.item()",
		"not replayed: the allocator did something else than the model (event 7).",
		"/home/u/train.py:12 in forward", "-1.00 MiB", "expandable_segments:True",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if _, err := Memory(&memsnap.Analysis{}); err == nil {
		t.Error("an analysis of no device has a page")
	}
}

// allText is every text of a page.
func allText(p *Page) string {
	var b strings.Builder
	b.WriteString(strings.Join(append([]string{p.Title}, p.Meta...), "; ") + "\n")
	for _, s := range p.Sections {
		for _, block := range s.Blocks {
			blockText(&b, block)
		}
	}
	return b.String()
}

func blockText(b *strings.Builder, block Block) {
	switch x := block.(type) {
	case Text:
		b.WriteString(x.S + "\n")
	case Lines:
		for _, l := range x.Lines {
			b.WriteString(l.Label + " " + l.Value + " " + l.Note + "\n")
		}
	case Table:
		for _, r := range x.Rows {
			for _, c := range r.Cells {
				b.WriteString(c.Text + " | ")
			}
		}
	case List:
		for _, i := range x.Items {
			b.WriteString(i.Label + " " + i.Text + "\n")
			blockText(b, Lines{Lines: i.Lines})
			for _, m := range i.More {
				blockText(b, m)
			}
		}
	}
}
