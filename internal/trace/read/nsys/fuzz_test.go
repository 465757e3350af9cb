package nsys

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// FuzzRead overwrites bytes of a valid export, or cuts it: whatever comes,
// there is a trace that holds together or an input error, soon.
func FuzzRead(f *testing.F) {
	path := build(f, append([]string{"PRAGMA page_size = 512"}, schema2025()...)...)
	valid, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, uint32(0), uint32(len(valid)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint32(100), uint32(len(valid)))
	f.Add([]byte{0, 0, 0, 1}, uint32(28), uint32(len(valid)))
	f.Add([]byte{5, 0, 0, 0, 9}, uint32(512), uint32(len(valid)))
	f.Add([]byte{}, uint32(0), uint32(3000))
	for at := uint32(0); at < uint32(len(valid)); at += 499 {
		f.Add([]byte{2, 5, 13}, at, uint32(len(valid)))
	}
	f.Fuzz(func(t *testing.T, patch []byte, at, size uint32) {
		b := append([]byte(nil), valid...)
		copy(b[int(at)%len(b):], patch)
		b = b[:int(size)%(len(b)+1)]
		p := filepath.Join(t.TempDir(), "x.sqlite")
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		tr, err := Read(ctx, p, p, 0)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Errorf("%v is no input error", err)
			}
			return
		}
		sound(t, tr)
	})
}

// sound checks that every index of a trace points to something.
func sound(t *testing.T, tr *model.Trace) {
	t.Helper()
	for i := range tr.Host {
		h := &tr.Host[i]
		if int(h.Lane) >= len(tr.Lanes) || int(h.Name) >= len(tr.Names) || int(h.Stack) > len(tr.Stacks) || h.End < h.Start || h.Kind == 0 || h.Kind > model.Instant {
			t.Errorf("host event %+v", *h)
		}
	}
	for i := range tr.GPU {
		g := &tr.GPU[i]
		if int(g.Device) >= len(tr.Devices) || int(g.Name) >= len(tr.Names) || int(g.Launch) >= len(tr.Host) || g.End < g.Start || g.Kind < model.Kernel || g.Bytes < 0 || g.Blocks < 0 || g.Threads < 0 {
			t.Errorf("device operation %+v", *g)
		}
	}
	for _, m := range tr.Memory {
		if int(m.Lane) >= len(tr.Lanes) {
			t.Errorf("memory event %+v", m)
		}
	}
}
