package stacks

import (
	"fmt"
	"io"
	"slices"

	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// WriteMemoryFolded writes a line per stack that holds memory at the peak or at the requested moment: its frames,
// outermost first, and the bytes. With several devices the first frame is the device.
func WriteMemoryFolded(w io.Writer, a *memsnap.Analysis) error {
	return writeFolded(w, holdersOf(a), len(a.Devices) > 1, 1)
}

// WriteMemorySpeedscope writes a profile per device, with weights in bytes. tool is gpuprof's version.
func WriteMemorySpeedscope(w io.Writer, a *memsnap.Analysis, tool string) error {
	return writeScopes(w, holdersOf(a), "memory of live tensors", "bytes", tool)
}

// holdersOf returns the stacks of live memory, with a thread for each device. The field NS of a tree holds bytes here.
func holdersOf(a *memsnap.Analysis) []thread {
	var out []thread
	for i := range a.Devices {
		d := &a.Devices[i]
		m := &d.Peak
		if d.At != nil {
			m = &d.At.Moment
		}
		t := thread{name: fmt.Sprintf("device %d of file %d", d.ID, d.Input+1)}
		for _, h := range m.Stacks {
			t.trees = append(t.trees, analyze.HostTree{NS: h.Bytes, Lines: framesOf(d, h)})
		}
		out = append(out, t)
	}
	return out
}

// framesOf returns the frames of a stack without the allocator's, outermost first. If there are none, it returns the
// category.
func framesOf(d *memsnap.Device, h memsnap.Held) []model.HostFrame {
	var out []model.HostFrame
	for _, f := range d.Replay.S.Stack(h.Stack) {
		if !f.Machinery() {
			out = append(out, model.HostFrame{Function: f.Name, File: f.File, Line: f.Line})
		}
	}
	if len(out) == 0 {
		return []model.HostFrame{{Function: "(no frame: " + h.Category.String() + ")"}}
	}
	slices.Reverse(out)
	return out
}
