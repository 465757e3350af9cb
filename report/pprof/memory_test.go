package pprof

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// The samples are what was live at the peak, by stack, the innermost frame first.
func TestWriteMemory(t *testing.T) {
	r := memtest.New(2, 15)
	by := memtest.Of(memtest.Frame("forward", "/home/u/train.py", 12), memtest.Frame("<module>", "/home/u/train.py", 40))
	r.Alloc(3000, by)
	r.Alloc(5000, by)
	r.Alloc(700, nil)
	s, err := memsnap.Read(context.Background(), bytes.NewReader(memtest.Python(r.Snapshot(), 4)), "x.pickle", 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := memsnap.Analyze(context.Background(), []*memsnap.Snapshot{s}, gpuprof.Tool{}, memsnap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteMemory(&b, a, "v1"); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sample) != 2 || p.DefaultSampleType != "inuse_space" {
		t.Fatalf("%v", p)
	}
	first := p.Sample[0]
	if first.Value[0] != 2 || first.Value[1] != 8000 || len(first.Location) != 2 || first.Location[0].Line[0].Function.Name != "forward" || first.Location[0].Line[0].Line != 12 || first.Location[1].Line[0].Function.Name != "module train.py" {
		t.Errorf("%+v", first)
	}
	if p.Sample[1].Value[1] != 700 || len(p.Sample[1].Location) != 1 {
		t.Errorf("%+v", p.Sample[1])
	}
}
