package measure

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// rated is a device whose peak rates come from a list, the last again and again.
type rated struct {
	device.Device
	rates []gpuprof.Ceilings
	asked int
}

func (d *rated) Ceilings(context.Context) (gpuprof.Ceilings, error) {
	d.asked++
	return d.rates[min(d.asked, len(d.rates))-1], nil
}

func rates(flops float64) gpuprof.Ceilings {
	return gpuprof.Ceilings{CopyBytesPerS: 1e15, ReadBytesPerS: 1e15, WriteBytesPerS: 1e15, CacheBytesPerS: 1e15, FlopsPerS: flops, LaunchS: 1e-9}
}

func ratedPlan(cache string) Plan {
	p := fake{spin: time.Millisecond}.plan()
	p.Samples, p.MaxTime, p.CacheDir, p.Build = 10, time.Minute, cache, "test"
	return p
}

// The rates are tried again in the middle and at the end, the best are kept, and
// a later run on the same machine has them too.
func TestPeaksAreTheBestOfTheMachine(t *testing.T) {
	cache := t.TempDir()
	first := &rated{Device: openHost(t), rates: []gpuprof.Ceilings{rates(1e9), rates(9e9), rates(2e9)}}
	r, err := Run(context.Background(), first, ratedPlan(cache))
	if err != nil {
		t.Fatal(err)
	}
	if first.asked < 3 || r.Ceilings.FlopsPerS != 9e9 || r.Stage("first").BoundS != 2000/9e9 || r.Stage("first").BoundBy != "fp32 arithmetic" {
		t.Errorf("asked %d times, rates %+v, bound %+v", first.asked, r.Ceilings, r.Stage("first").BoundS)
	}
	slow := &rated{Device: openHost(t), rates: []gpuprof.Ceilings{rates(1e9)}}
	if r, err = Run(context.Background(), slow, ratedPlan(cache)); err != nil || r.Ceilings.FlopsPerS != 9e9 {
		t.Errorf("the next run has %+v, %v", r.Ceilings, err)
	}
	other := ratedPlan(cache)
	other.Build = "another build"
	if r, err = Run(context.Background(), slow, other); err != nil || r.Ceilings.FlopsPerS != 1e9 {
		t.Errorf("another build has %+v, %v", r.Ceilings, err)
	}
}

// A stage faster than its bound has none, and says why.
func TestBoundAboveTheTimeIsWithheld(t *testing.T) {
	r, err := Run(context.Background(), &rated{Device: openHost(t), rates: []gpuprof.Ceilings{rates(1)}}, ratedPlan(""))
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Stage("first"); s.BoundS != 0 || s.BoundBy != "" || !strings.Contains(s.NoBound, "% of the time measured") {
		t.Errorf("bound %g by %q, reason %q", s.BoundS, s.BoundBy, s.NoBound)
	}
}

// Writers at the same time lose nothing: in the end the folder knows the best of
// all, whatever was damaged in it.
func TestPeaksOfManyWriters(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "peaks")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cut.json": `{"flops_per_s":`, "mad.json": `{"flops_per_s":-1,"copy_bytes_per_s":1e999}`, "none": "x"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	const writers = 24
	for k := range writers {
		all.Go(func() {
			c := gpuprof.Ceilings{FlopsPerS: float64(1 + k), CopyBytesPerS: float64(writers - k)}
			for range 5 {
				if got := sharePeaks(folder, c); got.FlopsPerS < c.FlopsPerS || got.CopyBytesPerS < c.CopyBytesPerS {
					t.Errorf("%+v is less than %+v", got, c)
				}
			}
		})
	}
	all.Wait()
	got := sharePeaks(folder, gpuprof.Ceilings{})
	if got.FlopsPerS != writers || got.CopyBytesPerS != writers {
		t.Errorf("in the end %+v", got)
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "*.json")); len(files) != 1 {
		t.Errorf("%d files are left: %v", len(files), files)
	}
}
