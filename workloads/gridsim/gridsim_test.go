package gridsim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func openHost(t testing.TB, o host.Options) *host.Device {
	t.Helper()
	return workloadtest.Host(t, o)
}

// resolve makes a config from "knob=value" strings.
func resolve(t testing.TB, preset string, set ...string) workloads.Config {
	t.Helper()
	return workloadtest.Config(t, New(), preset, set...)
}

func openOn(t testing.TB, d device.Device, set ...string) *session {
	t.Helper()
	c := resolve(t, "small", set...)
	if err := New().Refuse(d.Info(), c.Knobs); err != nil {
		t.Fatal(err)
	}
	s, err := open(context.Background(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.Closing(t, s)
}

func openSession(t testing.TB, set ...string) *session {
	t.Helper()
	return openOn(t, openHost(t, host.Options{}), set...)
}

// run takes steps 0 to n-1 and waits.
func run(t testing.TB, s *session, n int) {
	t.Helper()
	for i := range n {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compute.Sync(); err != nil {
		t.Fatal(err)
	}
}

// present is the state after the last step, in planes whatever the layout.
func present(t testing.TB, s *session) []float32 {
	t.Helper()
	v, err := s.receive(s.blocks[bState], s.shape.stateWords())
	if err != nil {
		t.Fatal(err)
	}
	return s.shape.permute(v, false)
}

// put puts a state in planes where the next step starts.
func put(t testing.TB, s *session, planes []float32) {
	t.Helper()
	v := s.shape.permute(planes, true)
	if err := s.send(s.blocks[bState], v); err != nil {
		t.Fatal(err)
	}
}

// network replaces the weights and binds the law anew.
func network(t testing.TB, s *session, w weights) {
	t.Helper()
	s.params = w
	if err := s.send(block{buf: s.weights}, w.packWeights(s.shape, s.k.Precision)); err != nil {
		t.Fatal(err)
	}
	s.bindLaw()
	if s.Err != nil {
		t.Fatal(s.Err)
	}
}

// ways are settings that compute the same law in different ways.
func ways() []string {
	var out []string
	for _, impl := range []string{"fused", "gemm", "split", "gemm,chunk=5", "split,chunk=3"} {
		for _, layout := range []string{"chw", "hwc"} {
			out = append(out, "impl="+impl+",layout="+layout)
		}
	}
	return out
}

// variants are settings whose every operation is checked against float64.
func variants() []string {
	return append(ways(), []string{
		"law=diffuse", "law=diffuse,impl=split", "law=diffuse,impl=split,chunk=4,border=zero,layout=hwc", "law=diffuse,layout=hwc,border=zero",
		"law=walk", "law=walk,layout=hwc", "law=walk,impl=split", "law=walk,impl=split,chunk=7,layout=hwc",
		"normalise=off", "normalise=off,impl=split", "normalise=off,impl=gemm,layout=hwc", "border=zero", "border=zero,impl=gemm,layout=hwc",
		"precision=tf32", "precision=bf16,impl=gemm", "precision=fp16,impl=split,layout=hwc", "precision=bf16,layout=hwc",
		"history=0", "history=4,keep=host", "history=2,keep=below:1,grid=192,channels=8", "keep=host,maps=1", "maps=2,scale=1", "pool_where=host", "view_copy=each,view_when=eager,maps=3",
		"graph=on", "graph=on,history=0,impl=split", "graph=on,history=3,impl=gemm,layout=hwc", "roi=on", "roi=on,allocator=driver", "allocator=driver,impl=split", "allocator=pool", "allocator=pool,impl=split,pool_trim=every:2,trim_sync=off", "allocator=pool,roi=on,max_split=32,impl=gemm",
		"tape=nodes,impl=split", "tape=saved,impl=split,chunk=5", "tape=saved,allocator=driver,impl=gemm", "autotune=on", "autotune=on,impl=split", "live=off", "stats=sync,sync=step,item_reads=2,reset_stats=sync",
	}...)
}

// tiny adds a small grid, so that all of it is checked.
func tinyGrid(set string) []string {
	all := []string{"grid=12", "channels=4", "hidden=10", "scale=4", "live=every:2"}
	return append(all, strings.Split(set, ",")...)
}

func TestChecks(t *testing.T) {
	for _, set := range variants() {
		t.Run(set, func(t *testing.T) {
			s := openSession(t, tinyGrid(set)...)
			for range 2 { // a check leaves the session as it was
				checks, err := s.Check(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if len(checks) < 3 {
					t.Errorf("%d checks", len(checks))
				}
				for _, c := range checks {
					if !c.Pass {
						t.Errorf("%s: relative error %.3g over %.3g", c.Stage, float64(c.RelativeError), c.Tolerance)
					}
				}
				run(t, s, 5)
			}
		})
	}
}

// A wrong weight or bias must fail the check of its operation and no other, and that of
// whole steps.
func TestCheckCatches(t *testing.T) {
	for _, set := range ways() {
		for name, spoil := range map[string]func(s *session){
			"w1": func(s *session) { s.params.w1[3] += 0.1 }, "b1": func(s *session) { s.params.b1[1] += 0.1 },
			"w2": func(s *session) { s.params.w2[2] += 0.1 }, "b2": func(s *session) { s.params.b2[0] += 0.1 },
		} {
			t.Run(set+" "+name, func(t *testing.T) {
				s := openSession(t, tinyGrid(set)...)
				spoil(s)
				checks, err := s.Check(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				operations, steps := 0, 0
				for _, c := range checks {
					switch {
					case c.Pass:
					case strings.HasPrefix(c.Stage, gpuprof.WholeStep):
						steps++
					default:
						operations++
					}
				}
				if operations != 1 || steps == 0 {
					t.Errorf("%d checks of operations and %d of whole steps failed: %+v", operations, steps, checks)
				}
			})
		}
	}
}

// How blocks are taken, how many cells go together, where states are kept and how
// many threads there are changes no bit.
func TestSameBits(t *testing.T) {
	for _, base := range []string{"impl=split", "impl=gemm,layout=hwc", "impl=fused", "law=walk,impl=split", "law=diffuse"} {
		settings := tinyGrid(base)
		want := openSession(t, settings...)
		run(t, want, 7)
		others := []string{"tape=saved", "tape=nodes", "keep=host", "keep=below:1", "allocator=driver", "allocator=pool", "threads=1", "view_when=eager", "history=3", "roi=on"}
		if !strings.Contains(base, "fused") && base != "law=diffuse" {
			others = append(others, "chunk=1", "chunk=5", "chunk=11")
		}
		for _, other := range others {
			t.Run(base+" "+other, func(t *testing.T) {
				s := openSession(t, append(settings, other)...)
				run(t, s, 7)
				same(t, present(t, s), present(t, want))
				for k := range s.slots {
					same(t, s.slots[k].picture, want.slots[k].picture)
				}
			})
		}
	}
}

func same(t testing.TB, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i, v := range got {
		if v != want[i] {
			t.Fatalf("[%d] %v, want %v", i, v, want[i])
		}
	}
}

// The launches are those of the contract: one, five or ten a step, and split's
// operations move 4(17C + 4H + 4) bytes a cell.
func TestLaunches(t *testing.T) {
	for impl, want := range map[string]int{"fused": 1, "gemm": 5, "split": 10} {
		s := openSession(t, tinyGrid("live=off,impl="+impl)...)
		before := s.Dev.Meter()
		run(t, s, 3)
		if got := s.Dev.Meter().Sub(before).Launches; got != int64(3*want) {
			t.Errorf("%s: %d launches in 3 steps, want %d", impl, got, 3*want)
		}
		if impl != "split" {
			continue
		}
		var bytes int64
		for _, o := range s.ops {
			bytes += o.Cost.Bytes()
			if o.rounds { // its weights are read once, whatever the cells
				bytes -= 4 * int64(2*s.shape.C*s.shape.H)
				if o.name == "out" {
					bytes += 4 * int64(s.shape.C*s.shape.H)
				}
			}
		}
		c, h := int64(s.shape.C), int64(s.shape.H)
		if want := 4 * (17*c + 4*h + 4) * int64(s.shape.cells()); bytes != want {
			t.Errorf("split moves %d bytes, want %d", bytes, want)
		}
	}
}

// The floors of the contract: 28.6 Mflop and 1.05 MB at small.
func TestFloors(t *testing.T) {
	for _, tt := range []struct {
		preset string
		flops  float64
		bytes  float64
	}{{"small", 28.6e6, 1.05e6}, {"aetheria", 1.72e9, 33.6e6}, {"large", 27.5e9, 537e6}} {
		c := shapeOf(workloads.Read[settings](resolve(t, tt.preset).Knobs)).lawCost("fp32")
		if f, b := float64(c.Flops), float64(c.Bytes()); f < tt.flops*0.99 || f > tt.flops*1.01 || b < tt.bytes*0.99 || b > tt.bytes*1.01 {
			t.Errorf("%s: %g flops and %g bytes, want %g and %g", tt.preset, f, b, tt.flops, tt.bytes)
		}
	}
}

// Every setting that cannot be is refused by name before anything is allocated.
func TestRefuses(t *testing.T) {
	d := openHost(t, host.Options{})
	for _, set := range []string{
		"scale=5", "law=walk,channels=6", "law=walk,border=zero", "channels=5", "chunk=8", "keep=below:4,history=0", "keep=host,history=0",
		"graph=on,pool_trim=every:2", "graph=on,roi=on", "graph=on,allocator=driver", "max_split=64", "impl=gemm,law=walk", "library=on", "precision=bf16,law=diffuse",
	} {
		last := set[strings.LastIndex(set, ",")+1:]
		err := New().Refuse(d.Info(), resolve(t, "small", strings.Split(set, ",")...).Knobs)
		if err == nil || !strings.Contains(err.Error(), strings.SplitN(last, "=", 2)[0]) {
			t.Errorf("%s: %v", set, err)
		}
	}
	for knob, value := range map[string]string{"max_split": "20", "keep": "below:0", "grid": "3"} {
		if _, err := workloads.Resolve(New(), "small", gpuprof.Settings{knob: value}); err == nil {
			t.Errorf("%s=%s was accepted", knob, value)
		}
	}
	small := openHost(t, host.Options{MemoryLimit: 1 << 20})
	_, err := open(context.Background(), small, resolve(t, "small"))
	if err == nil || !strings.Contains(err.Error(), "grid") || !strings.Contains(err.Error(), "hidden") || small.Memory().InUse != 0 {
		t.Errorf("a grid that does not fit: %v, %d bytes in use", err, small.Memory().InUse)
	}
}

// The timed step allocates nothing with the defaults.
func TestStepAllocatesNothing(t *testing.T) {
	s := openSession(t, "grid=32", "live=every:2")
	run(t, s, 20)
	i := 20
	if n := testing.AllocsPerRun(50, func() {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		i++
	}); n > 0 {
		t.Errorf("%v allocations in a step", n)
	}
}

// Frames are counted, and what is copied in pieces is waited for.
func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		set           string
		copies, syncs int64
		bytes         int64
	}{
		{"live=every:5", 2, 0, 2 * 4 * 4 * 9}, {"live=every:5,view_when=eager", 10, 0, 10 * 4 * 4 * 9},
		{"live=every:5,view_copy=each", 8, 8, 2 * 4 * 4 * 9}, {"live=every:5,pool_where=host", 2, 0, 2 * 4 * 4 * 144}, {"live=off", 0, 0, 0},
		{"live=off,keep=host", 10, 0, 10 * 4 * 4 * 144}, {"live=off,keep=below:1", 0, 0, 0},
	} {
		t.Run(tt.set, func(t *testing.T) {
			s := openSession(t, tinyGrid(tt.set)...)
			before := s.Dev.Meter()
			for i := range 10 {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
			m := s.Dev.Meter().Sub(before)
			if m.CopiesD2H != tt.copies || m.BytesD2H != tt.bytes || m.SyncPoints != tt.syncs {
				t.Errorf("%d copies, %d bytes, %d waits; want %+v", m.CopiesD2H, m.BytesD2H, m.SyncPoints, tt)
			}
		})
	}
}

func ExampleNew() {
	fmt.Println(New().Name())
	// Output: gridsim
}

func TestSettingsAreKnobs(t *testing.T) {
	workloadtest.ReadsKnobs[struct {
		settings
		loop.Pace
	}](t, Workload{})
	k := workloads.Read[settings](set{"grid": "64", "live": "every:7", "chunk": "all", "roi": "on", "law": "walk"})
	if k.Grid != 64 || k.Live != 7 || k.Chunk != 0 || !k.ROI || k.Law != "walk" {
		t.Errorf("read as %+v", k)
	}
}
