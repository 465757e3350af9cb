package figure

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// kindTones returns the tones of memory categories, the same in all figures of a device.
func kindTones(d *memsnap.Device) map[string]Tone {
	tones := map[string]Tone{}
	for _, k := range d.Series.Kinds {
		tones[k.Category] = partTone(k.Category)
	}
	return tones
}

// MemoryCalls draws the stacks that hold memory at the reported moment as an icicle, the outermost frame at the top.
func MemoryCalls(a *memsnap.Analysis) *Figure {
	f := newMemoryFigure("calls", "Memory by call", "The frames of the stacks that hold memory, the outermost at the top: each is as wide as the bytes that it and its callees allocated.", a)
	if len(a.Devices) == 0 {
		return f.setLacking("nothing was live")
	}
	m, when := a.Devices[0].Shown()
	if len(m.Calls) == 0 {
		return f.setLacking("no live memory has a stack")
	}
	f.Title = "Memory by call at " + view.Cut(when, 60)
	p, most := iciclePanel(m.Calls, func(bytes int64) string { return gpuprof.FormatBytes(float64(bytes)) })
	p.X = bytesAxis("bytes", most)
	f.Panels = []Panel{p}
	return f
}

// MemoryMap draws the largest segments with their live blocks.
func MemoryMap(a *memsnap.Analysis) *Figure {
	f := newMemoryFigure("map", "Segments", "The largest segments that the allocator holds, a row for each: live memory by category, and free memory between it.", a)
	if len(a.Devices) == 0 {
		return f.setLacking("nothing was reserved")
	}
	d := &a.Devices[0]
	m, when := d.Shown()
	if len(m.Segments) == 0 {
		return f.setLacking("nothing was reserved")
	}
	f.Title = "Segments at " + view.Cut(when, 60)
	tones := kindTones(d)
	p := Panel{X: bytesAxis("bytes from the start of the segment", float64(m.Segments[0].Bytes)), Height: 18 * float64(len(m.Segments))}
	byKind := map[string]*Mark{}
	var kinds, names []string
	for i, g := range m.Segments {
		names = append(names, gpuprof.FormatBytes(float64(g.Bytes)))
		p.Marks = append(p.Marks, Mark{Kind: Bar, X1: float64(g.Bytes), Y0: float64(i) + 0.1, Y1: float64(i) + 0.9, Tone: Rest,
			Tip: "segment of " + gpuprof.FormatBytes(float64(g.Bytes))})
		p.RowNotes = append(p.RowNotes, gpuprof.FormatBytes(float64(g.Live))+" live")
		for _, piece := range g.Pieces {
			b := byKind[piece.Category]
			if b == nil {
				b = &Mark{Kind: Boxes, Tone: cmp.Or(tones[piece.Category], Rest)}
				byKind[piece.Category], kinds = b, append(kinds, piece.Category)
			}
			b.Points = append(b.Points, [2]float64{float64(piece.From), float64(i) + 0.1}, [2]float64{float64(piece.To), float64(i) + 0.9})
		}
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		p.Marks = append(p.Marks, *byKind[k])
		f.Legend = append(f.Legend, Entry{Text: k, Tone: byKind[k].Tone})
	}
	f.Legend = append(f.Legend, Entry{Text: "free", Tone: Rest})
	p.Y = rowAxis(names)
	f.Panels = []Panel{p}
	if m.MoreSegments > 0 {
		f.addNote("not drawn: " + gpuprof.Plural(m.MoreSegments, "smaller segment"))
	}
	return f
}
