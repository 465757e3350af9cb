package gpucheck

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// figuresVariable names the file that figures are appended to.
const figuresVariable = "GPUPROF_FIGURES"

// figure is one measured quantity. Bound is its roofline bound by the rule of
// every run (Ceilings.Bound), in the same unit. Value and Bound are null on the
// simulator, whose times mean nothing.
type figure struct {
	Name  string             `json:"name"`
	Unit  string             `json:"unit"`
	Value *float64           `json:"value"`
	Bound *float64           `json:"floor,omitempty"`
	Extra map[string]float64 `json:"extra,omitempty"`
	// Limit is what the value has to keep, in words; Pass whether it does, null
	// where nothing is demanded or nothing was measured.
	Limit string `json:"limit,omitempty"`
	Pass  *bool  `json:"pass,omitempty"`
	Note  string `json:"note,omitempty"`
	Dry   bool   `json:"dry"`
}

// bound sets the figure's roofline bound, or notes why there is none: a bound
// longer than what was measured is withheld, as in a run.
func (f *figure) bound(b gpuprof.Bound) {
	if f.Value != nil {
		b = b.Beside(*f.Value)
	}
	if f.Bound = nil; b.S > 0 {
		f.Bound = &b.S
	}
	if b.Missing != "" {
		f.Note = strings.TrimPrefix(f.Note+"; no roofline bound: "+b.Missing, "; ")
	}
}

// rig is the device under test with one stream.
type rig struct {
	t    testing.TB
	dev  *cuda.Device
	s    device.Stream
	real bool
	rnd  *rand.Rand
}

func newRig(t testing.TB) *rig {
	t.Helper()
	// A simulated cache of 1 MiB (attribute 38): ceilings move several times its size.
	lib, simulated := cudatest.Driver(t, "attr.38=1048576")
	dev, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: simulated})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("%s, seed %d", dev.Info().Name, seed)
	r := &rig{t: t, dev: dev, real: !simulated, rnd: rand.New(rand.NewPCG(seed, 3))}
	r.s, err = dev.NewStream("check")
	r.ok(err)
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// pick is a size for the real device, or the one for the simulator.
func pick[T any](r *rig, real, dry T) T {
	if r.real {
		return real
	}
	return dry
}

// keep writes a figure; one that misses its limit fails the test. On the
// simulator times are neither kept nor judged.
func (r *rig) keep(f figure) {
	r.t.Helper()
	if !r.real {
		f.Value, f.Bound, f.Extra, f.Pass, f.Dry = nil, nil, nil, nil, true
	}
	if f.Pass != nil && !*f.Pass {
		r.t.Errorf("%s is %.4g %s, demanded: %s %s", f.Name, *f.Value, f.Unit, f.Limit, f.Note)
	}
	if err := appendFigure(os.Getenv(figuresVariable), f); err != nil {
		r.t.Errorf("writing figure %s: %v", f.Name, err)
	}
}

// appendFigure adds one line to a file; no file, no line.
func appendFigure(path string, f figure) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		_ = file.Close() // the write's failure is the one to tell
		return err
	}
	return file.Close()
}

func (r *rig) alloc(bytes int, p device.Place) device.Buffer {
	r.t.Helper()
	b, err := r.dev.Alloc(max(bytes, 16), p)
	r.ok(err)
	return b
}

func (r *rig) free(bufs ...device.Buffer) {
	r.t.Helper()
	for _, b := range bufs {
		r.ok(b.Free())
	}
}

// upload copies values to a new device buffer, through pinned memory.
func upload[T float32 | int32 | uint16](r *rig, v []T) device.Buffer {
	r.t.Helper()
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
	b := r.alloc(len(bytes), device.OnDevice)
	stage := r.alloc(min(len(bytes), 64<<20), device.Pinned)
	for at := 0; at < len(bytes); {
		n := copy(stage.Bytes(), bytes[at:])
		r.ok(r.s.Copy(b, at, stage, 0, n))
		r.ok(r.s.Sync())
		at += n
	}
	r.free(stage)
	return b
}

// download reads the first bytes of b into a new pinned buffer.
func (r *rig) download(b device.Buffer, bytes int) device.Buffer {
	r.t.Helper()
	down := r.alloc(bytes, device.Pinned)
	r.ok(r.s.Copy(down, 0, b, 0, bytes))
	r.ok(r.s.Sync())
	return down
}

// random is n fresh values of mean 0 and variance 1, drawn by every core.
func (r *rig) random(n int) []float32 {
	v := make([]float32, n)
	const part = 1 << 20
	var wg sync.WaitGroup
	for lo := 0; lo < n; lo += part {
		rnd := rand.New(rand.NewPCG(r.rnd.Uint64(), r.rnd.Uint64()))
		wg.Go(func() {
			for i := range v[lo:min(lo+part, n)] {
				v[lo+i] = (rnd.Float32() - 0.5) * 3.4641016
			}
		})
	}
	wg.Wait()
	return v
}

// poison fills b with NaNs.
func (r *rig) poison(b device.Buffer) {
	r.t.Helper()
	f, err := op.Fill{Value: float32(math.NaN())}.Bind(r.dev, b, b.Len()/4, 0, 0)
	r.ok(err)
	r.ok(f.Enqueue(r.s))
	r.ok(r.s.Sync())
	r.ok(f.Close())
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// distance is ||got-want|| and ||want|| squared, added to what sum holds.
func distance(sum *[2]float64, got []float32, want []float64) {
	for i, w := range want {
		d := float64(got[i]) - w
		sum[0] += d * d
		sum[1] += w * w
	}
}

func relative(sum [2]float64) float64 { return math.Sqrt(sum[0] / math.Max(sum[1], 1e-300)) }

// within fails the test unless a relative error is below its tolerance; a NaN
// is not. Values are right or wrong on every device, the simulator included.
func (r *rig) within(what string, e, tolerance float64) {
	r.t.Helper()
	if !(e < tolerance) {
		r.t.Errorf("%s: relative error %.3g, expected below %.1g", what, e, tolerance)
	}
}

// clock times n repetitions of fn in seconds, each between two events. They
// queue up behind a pause of the device, so that it is the device that is
// measured and not the caller.
func (r *rig) clock(n int, fn func() error) []float64 {
	r.t.Helper()
	marks := r.events(2 * n)
	r.ok(r.dev.Spin(r.s, pick(r, int64(n)*20_000+200_000, 0)))
	for i := range n {
		r.ok(r.s.Record(marks[2*i]))
		r.ok(fn())
		r.ok(r.s.Record(marks[2*i+1]))
	}
	r.ok(r.s.Sync())
	out := make([]float64, n)
	for i := range out {
		out[i] = r.between(marks[2*i], marks[2*i+1])
	}
	return out
}

func (r *rig) between(from, to device.Event) float64 {
	r.t.Helper()
	ns, err := r.dev.ElapsedNS(from, to)
	r.ok(err)
	return float64(ns) * 1e-9
}

func (r *rig) events(n int) []device.Event {
	r.t.Helper()
	out := make([]device.Event, n)
	for i := range out {
		e, err := r.dev.NewEvent()
		r.ok(err)
		out[i] = e
	}
	return out
}

// steady is the median time of fn once it is warm, over about spend seconds.
func (r *rig) steady(spend float64, fn func() error) float64 {
	r.t.Helper()
	once := median(r.clock(3, fn))
	n := int(min(max(spend/max(once, 1e-7), 5), 200))
	return median(r.clock(pick(r, n, 2), fn))
}

func (r *rig) enqueue(ops ...*op.Bound) func() error {
	return func() error {
		for _, o := range ops {
			if o != nil {
				if err := o.Enqueue(r.s); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// theilSen is the median of the slopes between all pairs of points.
func theilSen(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := range i {
			slopes = append(slopes, (y[i]-y[j])/(x[i]-x[j]))
		}
	}
	return median(slopes)
}

func ptr[T any](v T) *T { return &v }

func irreps(t testing.TB, s string) so3.Irreps {
	t.Helper()
	irs, err := so3.ParseIrreps(s)
	if err != nil {
		t.Fatal(err)
	}
	return irs
}
