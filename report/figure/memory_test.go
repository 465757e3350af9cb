package figure

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// held is an analysis of two columns and two categories.
func held() *memsnap.Analysis {
	d := memsnap.Device{ID: 1, Events: 20, PeakReserved: 40 << 20}
	d.Peak = memsnap.Moment{Event: 12, Requested: 30 << 20, Reserved: 40 << 20, Sites: []memsnap.SiteBytes{
		{Where: "/home/u/train.py:12 in forward", Category: "activation", Bytes: 20 << 20, Blocks: 3}, {Where: "/home/u/train.py:3 in build", Category: "persistent", Bytes: 10 << 20, Blocks: 1}}}
	d.Series = memsnap.Series{Event: []int{5, 12}, TimeUS: []int64{1, 2}, Requested: []int64{10 << 20, 30 << 20}, Least: []int64{0, 0}, Reserved: []int64{20 << 20, 40 << 20},
		Kinds: []memsnap.KindLine{{Category: "persistent", Bytes: []int64{10 << 20, 10 << 20}}, {Category: "activation", Bytes: []int64{0, 20 << 20}}}}
	d.OOMs = []memsnap.Outage{{Moment: memsnap.Moment{Event: 15}}}
	return &memsnap.Analysis{Inputs: []memsnap.Input{{Path: "x.pickle"}}, Devices: []memsnap.Device{d}}
}

// Categories stand on each other up to what is live, over the events; lines are bars.
func TestMemoryFigures(t *testing.T) {
	t.Parallel()
	f, err := OfMemory(held(), "")
	if err != nil || f.ID != "memory" {
		t.Fatalf("%+v, %v", f, err)
	}
	boxes := f.Panels[0].Marks
	if len(boxes[0].Points) != 4 || len(boxes[1].Points) != 2 || boxes[1].Points[0] != [2]float64{10, 10 << 20} || boxes[1].Points[1] != [2]float64{20, 30 << 20} {
		t.Errorf("%v, %v", boxes[0].Points, boxes[1].Points)
	}
	if words := f.AltText(); !strings.Contains(words, "peak: 30.0 MiB of live tensors at event 12, 40.0 MiB reserved") {
		t.Error(words)
	}
	f, err = OfMemory(held(), "sites")
	if err != nil || !strings.Contains(f.AltText(), "/home/u/train.py:12 in forward: 20.0 MiB in 3 blocks, activation") {
		t.Errorf("%+v, %v", f, err)
	}
	a := held()
	a.Devices[0].OOMs[0].Calls = []memsnap.Call{{Where: "train.py:9 in main", To: 30 << 20}, {Where: "train.py:12 in forward", Depth: 1, To: 20 << 20}}
	a.Devices[0].OOMs[0].Segments = []memsnap.SegmentPart{{Bytes: 20 << 20, Live: 5 << 20, Pieces: []memsnap.Piece{{From: 1 << 20, To: 6 << 20, Category: "activation"}}}}
	a.Devices[0].OOMs[0].MoreSegments = 3
	f, err = OfMemory(a, "calls")
	if m := f.Panels[0].Marks; err != nil || len(m) != 2 || m[1].X1 != 20<<20 || m[1].Y0 < 1 || f.Title != "Memory by call at the out-of-memory error" {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = OfMemory(a, "map")
	if m := f.Panels[0].Marks; err != nil || len(m) != 2 || m[1].Points[0][0] != 1<<20 || m[1].Points[1][0] != 6<<20 || m[1].Tone != partTone("activation") || f.Notes[0] != "not drawn: 3 smaller segments" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, x := range []*memsnap.Analysis{{}, {Inputs: []memsnap.Input{{}}, Devices: make([]memsnap.Device, 1)}} {
		if MemoryOverTime(x).Lacks == "" || MemorySites(x).Lacks == "" || MemoryCalls(x).Lacks == "" || MemoryMap(x).Lacks == "" {
			t.Error("an analysis without events has figures")
		}
	}
	if _, err := OfMemory(held(), "roofline"); err == nil {
		t.Error("an analysis of memory has a roofline")
	}
}
