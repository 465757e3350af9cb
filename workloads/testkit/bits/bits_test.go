//go:build linux && !race

// One goroutine runs all cases: the race detector has nothing to find here.

package bits

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

var update = flag.Bool("update", false, "write testdata/bits.txt again, with every case")

const (
	golden = "testdata/bits.txt"
	steps  = 4
	daily  = 7 // by day every seventh case
)

// settings are the cases of a workload: the preset small with these settings, cut down by the first ones.
var settings = []struct {
	workload workloads.Workload
	common   string
	sets     []string
}{
	{e3nn.New(), "batch=12,library=off", []string{
		"pass=forward", "pass=forces", "pass=train", "impl=fused", "impl=unfused", "impl=unfused,deterministic=on",
		"layout=mul_ir", "mul=6", "impl=fused,pass=train", "impl=unfused,pass=train,layout=mul_ir", "precision=tf32", "precision=bf16,pass=train",
		"precision=fp16", "graph=on", "recompute=all,pass=train", "recompute=weights,pass=train", "points=atoms,structure=hfo2", "basis=bessel,pass=forces", "lmax=3,mul=4",
	}},
	{gruflow.New(), "flows=30,library=off", []string{
		"impl=fused", "impl=plain", "deterministic=off", "precision=tf32", "precision=bf16,impl=plain", "precision=fp16,impl=fused",
		"graph=on", "steps=3,layers=3", "fill=on", "tape=saved",
		"pass=train,window=3,hidden=9,input=5", "pass=train,window=4,checkpoint=2,hidden=9", "pass=train,window=4,precision=bf16,hidden=16", "pass=train,window=3,graph=on,hidden=9",
	}},
	{gridsim.New(), "grid=12,channels=4,hidden=10,scale=4,live=every:2,library=off", []string{
		"impl=fused", "impl=gemm", "impl=split", "impl=gemm,layout=hwc", "impl=split,layout=hwc,chunk=5", "normalise=off,impl=split", "border=zero,impl=fused", "law=diffuse", "law=diffuse,impl=split",
		"law=walk", "law=walk,impl=split,layout=hwc", "precision=tf32", "precision=bf16,impl=gemm", "precision=fp16,impl=split", "history=4,keep=host", "graph=on,impl=gemm", "roi=on",
		"allocator=pool,impl=split", "tape=saved,impl=split",
	}},
	{collate.New(), "workers=0,batch=3,probes=16", []string{"impl=cached", "impl=bulk", "impl=naive", "padded=on", "consume=3", "spread=0,batch=1"}},
	{serving.New(), "width=3,blocks=1-1,max_batch=2,library=off", []string{
		"impl=direct", "impl=im2col", "bn=fused", "bn=apart,impl=im2col", "precision=tf32", "graph=on,pad=on", "layout=nhwc",
	}},
}

// traits name everything outside of gpuprof that may change a rounding: a hash holds on machines with equal traits.
func traits(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("g++", "-dumpfullversion").Output()
	if err != nil {
		t.Fatalf("asking g++ for its version: %v", err)
	}
	return fmt.Sprintf("# %s avx2=%t g++ %s", runtime.GOARCH, cpu.X86.HasAVX2 && cpu.X86.HasFMA, strings.TrimSpace(string(out)))
}

// The steps of every workload leave in memory, bit for bit, what they left when testdata/bits.txt was written. On a
// machine with other traits two runs of each case must agree.
func TestBits(t *testing.T) {
	text, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	mine := traits(t)
	known := map[string]string{}
	for _, l := range lines[1:] {
		hash, name, _ := strings.Cut(l, " ")
		known[name] = hash
	}
	written := []string{mine}
	n := 0
	for _, w := range settings {
		for _, set := range w.sets {
			for _, kind := range []string{"host", "simulated"} {
				name := w.workload.Name() + " " + set + " " + kind
				if n++; !nightly && !*update && n%daily != 0 {
					continue
				}
				t.Run(strings.ReplaceAll(name, " ", "/"), func(t *testing.T) {
					c := workloadtest.Config(t, w.workload, "small", strings.Split(w.common+","+set, ",")...)
					got := hashOf(t, kind, w.workload, c)
					want := known[name]
					if lines[0] != mine || *update {
						want = hashOf(t, kind, w.workload, c)
					}
					if got != want {
						t.Errorf("memory after %d steps has hash %q, want %q; if the change is intended, run go test -update", steps, got, want)
					}
					written = append(written, got+" "+name)
				})
			}
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(golden, []byte(strings.Join(written, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every line of the file belongs to a case, and every case has a line.
func TestBitsNamesEveryCase(t *testing.T) {
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		_, name, _ := strings.Cut(l, " ")
		have = append(have, name)
	}
	for _, w := range settings {
		for _, set := range w.sets {
			want = append(want, w.workload.Name()+" "+set+" host", w.workload.Name()+" "+set+" simulated")
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s has other cases than the test: run go test -update", golden)
	}
}

// memory keeps every buffer that a device allocated.
type memory struct{ all []device.Buffer }

type hostDevice struct {
	*host.Device
	memory
}

// Info implements device.Device: a cache that a few batches fill.
func (d *hostDevice) Info() device.Info {
	i := d.Device.Info()
	i.CacheBytes = 1 << 20
	return i
}

// Alloc implements device.Device. New memory holds NaN.
func (d *hostDevice) Alloc(n int, p device.Place) (device.Buffer, error) {
	b, err := d.Device.Alloc(n, p)
	if err == nil {
		fill(b.Bytes())
		d.all = append(d.all, b)
	}
	return b, err
}

type simulated struct {
	*cuda.Device
	memory
	stream device.Stream
}

// Info implements device.Device: a cache that a few batches fill.
func (d *simulated) Info() device.Info {
	i := d.Device.Info()
	i.CacheBytes = 1 << 20
	return i
}

// Alloc implements device.Device. New memory holds NaN.
func (d *simulated) Alloc(n int, p device.Place) (device.Buffer, error) {
	b, err := d.Device.Alloc(n, p)
	if err != nil {
		return nil, err
	}
	d.all = append(d.all, b)
	if p != device.OnDevice {
		fill(b.Bytes())
		return b, nil
	}
	from, err := d.Device.Alloc(n, device.Pageable)
	if err != nil {
		return nil, err
	}
	fill(from.Bytes())
	if err := d.stream.Copy(b, 0, from, 0, n); err != nil {
		return nil, err
	}
	if err := d.stream.Sync(); err != nil {
		return nil, err
	}
	return b, from.Free()
}

func fill(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// open makes the device of a kind, and the memory that it allocates.
func open(t *testing.T, kind string) (device.Device, *memory) {
	t.Helper()
	if kind == "host" {
		d := &hostDevice{Device: workloadtest.Host(t, host.Options{Threads: 1, MemoryLimit: 2 << 30})}
		return d, &d.memory
	}
	d := &simulated{Device: workloadtest.Simulated(t, false)}
	s, err := d.NewStream("contents")
	if err != nil {
		t.Fatal(err)
	}
	d.stream = workloadtest.Closing(t, s)
	return d, &d.memory
}

// hashOf runs steps of a new session and returns the hash of all its memory, in any order of allocation.
func hashOf(t *testing.T, kind string, w workloads.Workload, c workloads.Config) (hash string) {
	t.Helper()
	t.Run("run", func(t *testing.T) {
		d, mem := open(t, kind)
		s, err := w.Open(context.Background(), d, c)
		if err != nil {
			t.Fatal(err)
		}
		workloadtest.Closing(t, s)
		for i := range steps {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := workloads.Join(s); err != nil {
			t.Fatal(err)
		}
		if err := s.Main().Sync(); err != nil {
			t.Fatal(err)
		}
		hash = mem.hash(t, d)
	})
	return hash
}

// hash copies every buffer that is still allocated to the host.
func (m *memory) hash(t *testing.T, d device.Device) string {
	t.Helper()
	stream, err := d.NewStream("results")
	if err != nil {
		t.Fatal(err)
	}
	var sums []string // of the buffers
	add := func(b []byte) { sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(b))) }
	for _, b := range slices.Clone(m.all) {
		if b.Place() != device.OnDevice || len(b.Bytes()) > 0 {
			add(b.Bytes())
			continue
		}
		to, err := d.Alloc(b.Len(), device.Pageable)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Copy(to, 0, b, 0, b.Len()); err == nil { // an error where the session freed it
			if err := stream.Sync(); err != nil {
				t.Fatal(err)
			}
			add(to.Bytes())
		}
		if err := to.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(sums)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(sums, "\n"))))[:16]
}
