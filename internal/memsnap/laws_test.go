//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// op is one thing that a program does.
type op struct {
	bytes      int64 // to take; 0: none
	free       int   // which of the held blocks to free; -1 none
	stream, in int
	empty      bool
}

// program is a random program: n things to do on some streams and private pools.
func program(seed uint64, n, streams, pools int) (out []op) {
	draw := rand.New(rand.NewPCG(seed, 3)).IntN
	held := 0
	for range n {
		o := op{free: -1}
		switch k := draw(40); {
		case k < 19:
			o.bytes = int64(1 + draw(4<<20)<<draw(5))
			if seed%2 == 0 || draw(3) == 0 {
				o.bytes = int64(1+draw(4)) << (20 + draw(4)) // sizes that come again
			}
			o.stream, o.in = 7*draw(streams), draw(pools)
			held++
		case k < 39 && held > 0:
			o.free = draw(held)
			held--
		case k == 39:
			o.empty = true
		}
		out = append(out, o)
	}
	return out
}

// play runs a program on an allocator.
func play(t testing.TB, r *memtest.Recorder, ops []op) {
	var held []*pool.Block
	for i, o := range ops {
		switch {
		case o.bytes > 0:
			held = append(held, r.AllocIn(o.bytes, o.stream, o.in, stack(i%7)))
		case o.free >= 0:
			b := held[o.free]
			held = slices.Delete(held, o.free, o.free+1)
			if b != nil {
				r.Free(b, stack(1))
			}
		case o.empty:
			if err := r.Empty(memtest.Of(memtest.Frame("empty_cache", "/home/u/train.py", 50))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// allocators are settings that recordings are made under, with what a file calls them.
func allocators() map[string]pool.Settings {
	return map[string]pool.Settings{
		"":                     {},
		"max_split_size_mb:32": {MaxSplit: 32 << 20}, "max_split_size_mb:128": {MaxSplit: 128 << 20},
		"roundup_power2_divisions:4":       {Roundup: uniformDivisions(4)},
		"large_segment_size_mb:40":         {Medium: 40 << 20},
		"garbage_collection_threshold:0.6": {Collect: 0.6}, "garbage_collection_threshold:0.8": {Collect: 0.8},
	}
}

// recordedUnder is a recording of a program under a setting.
func recordedUnder(t testing.TB, minor int, config string, order pool.Order, allowed int64, ops []op) *memtest.Recorder {
	r := memtest.New(2, minor)
	r.Set, r.Config, r.Lowest = allocators()[config], config, true
	r.Set.Order, r.Set.Allowed = order, allowed
	r.Roundup = r.Set.Roundup[0]
	play(t, r, ops)
	return r
}

func asked(t testing.TB, r *memtest.Recorder, o Options) *Device {
	t.Helper()
	a, err := Analyze(context.Background(), []*Snapshot{mustRead(t, memtest.Python(r.Snapshot(), 4))}, gpuprof.Tool{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return &a.Devices[0]
}

// versions are those whose files differ in what decides among blocks of equal size.
var versions = map[int]pool.Order{5: pool.ByAddress, 12: pool.ByBlock, 15: pool.BySegment}

// Whatever a program does, on streams, in private pools, under every setting and in every
// order of blocks: the model repeats the recording, and its own setting gives its own peak.
func TestModelRepeatsEveryAllocator(t *testing.T) {
	for seed := range uint64(12) {
		for minor, order := range versions {
			for config := range allocators() {
				pools := 1 + 2*int(seed%2)
				if minor < 12 {
					pools = 1 // TestPoolsOfOldFiles
				}
				r := recordedUnder(t, minor, config, order, 400<<20, program(seed, 150, 1+int(seed%3), pools))
				d := asked(t, r, Options{Allowed: 400 << 20})
				if !d.Check.Passed || d.Check.Order != order.String() && minor != 12 {
					t.Errorf("seed %d, 2.%d, %q: %+v of %d events", seed, minor, config, d.Check, d.Events)
					continue
				}
				if own := d.WhatIf[0]; own.PeakReserved != d.reservedUntilOOM() || !own.Exact {
					t.Errorf("seed %d, 2.%d, %q: %+v; it reserved %d", seed, minor, config, own, d.reservedUntilOOM())
				}
			}
		}
	}
}

// What is said of a setting is what the allocator does under it, for the same program: to the byte
// where it is called exact, and within its range where the order is by addresses.
func TestWhatIfEqualsTheAllocatorUnderTheSetting(t *testing.T) {
	ranged, all, collected := 0, 0, 0
	for seed := range uint64(12) {
		for minor, order := range versions {
			// A call of empty_cache that returns nothing is not in a file.
			ops := slices.DeleteFunc(program(seed, 150, 1+int(seed%3), 1), func(o op) bool { return o.empty })
			allowed := int64(2 << 30) // no error, so that both do the same
			d := asked(t, recordedUnder(t, minor, "", order, allowed, ops), Options{Allowed: allowed, Settings: []string{"large_segment_size_mb:40"}})
			for config := range allocators() {
				i := slices.IndexFunc(d.WhatIf, func(w WhatIf) bool { return w.Setting == config })
				if config == "" {
					continue
				}
				if i < 0 {
					t.Errorf("seed %d, 2.%d: %q was not tried", seed, minor, config)
					continue
				}
				w, want := d.WhatIf[i], recordedUnder(t, minor, config, order, allowed, ops).Stats()
				all++
				if w.LeastReserved < w.PeakReserved {
					ranged++
				}
				if minor != 5 && (!w.Exact || w.LeastReserved != w.PeakReserved || w.DriverAllocs != want.DriverAllocs || w.DriverFrees != want.DriverFrees) ||
					want.PeakReserved < w.LeastReserved || want.PeakReserved > w.PeakReserved || w.PeakLive != want.PeakInUse {
					t.Errorf("seed %d, 2.%d, %q: %+v; under it the allocator counted %+v", seed, minor, config, w, want)
				}
			}
			tight := asked(t, recordedUnder(t, minor, "", order, 500<<20, ops), Options{Allowed: 500 << 20})
			if len(tight.WhatIf) > 0 && len(tight.OOMs) == 0 {
				i := slices.IndexFunc(tight.WhatIf, func(w WhatIf) bool { return w.Setting == "garbage_collection_threshold:0.6" })
				if w, want := tight.WhatIf[i], recordedUnder(t, minor, "garbage_collection_threshold:0.6", order, 500<<20, ops).Stats(); minor != 5 && (w.PeakReserved != want.PeakReserved || w.DriverFrees != want.DriverFrees) {
					t.Errorf("seed %d, 2.%d: with a collection %+v, the allocator counted %+v", seed, minor, w, want)
				} else if w.DriverFrees != tight.WhatIf[0].DriverFrees {
					collected++
				}
			}
		}
	}
	if ranged == 0 || all < 150 || collected == 0 {
		t.Errorf("%d of %d are ranges, %d collections", ranged, all, collected)
	}
}

// A recording that begins late starts from what was live then. The model repeats it where
// the sizes of blocks can be told, other settings are no more than a range, and that has
// what the allocator did.
func TestLateRecordings(t *testing.T) {
	passed, all, within, said := 0, 0, 0, 0
	for seed := range uint64(40) {
		for minor, order := range versions {
			r := recordedUnder(t, minor, "", order, 0, program(seed, 200, 1+int(seed%3), 1))
			r.Forget(len(r.Events) * 2 / 3)
			d := asked(t, r, Options{})
			if d.Complete {
				continue
			}
			all++
			if !d.Check.Passed {
				continue
			}
			passed++
			for i, w := range d.WhatIf {
				if i == 0 && (w.PeakReserved != d.PeakReserved || w.LeastReserved != d.PeakReserved) || w.Exact || w.OOM != nil || w.LeastReserved < w.PeakLive {
					t.Errorf("seed %d, 2.%d: %+v; reserved %d", seed, minor, w, d.PeakReserved)
				}
			}
			for config := range allocators() {
				if i := slices.IndexFunc(d.WhatIf, func(w WhatIf) bool { return w.Setting == config }); i >= 0 {
					want := recordedUnder(t, minor, config, order, 0, program(seed, 200, 1+int(seed%3), 1))
					said++
					if p := peakAfter(t, want, len(r.Events)); p >= d.WhatIf[i].LeastReserved && p <= d.WhatIf[i].PeakReserved {
						within++
					}
				}
			}
		}
	}
	if passed*10 < all*7 || all < 60 || within*10 < said*8 {
		t.Errorf("%d of %d late recordings are repeated; %d of %d ranges have what the allocator did", passed, all, within, said)
	}
}

// peakAfter is the most that a recording reserved in about its last n events.
func peakAfter(t testing.TB, r *memtest.Recorder, n int) (peak int64) {
	s := mustRead(t, memtest.Python(r.Snapshot(), 4))
	rep := NewReplay(s, 0)
	rep.Levels(func(event int, _ Action, l Level, _ int64) {
		if event >= rep.Events()-n {
			peak = max(peak, l.Reserved)
		}
	})
	return peak
}

// Files of PyTorch before 2.12 do not name the pool of an event; the pool of its segment counts.
func TestPoolsOfOldFiles(t *testing.T) {
	passed := 0
	for seed := range uint64(20) {
		r := recordedUnder(t, 5, "", pool.ByAddress, 0, program(seed, 60, 1, 3))
		s := mustRead(t, memtest.Python(r.Snapshot(), 4))
		if d := &analyzed(t, s).Devices[0]; d.Check.Passed {
			passed++
		}
	}
	if passed < 10 {
		t.Errorf("%d of 20 recordings with private pools are repeated", passed)
	}
}

// Memory of a private pool is returned by empty_cache once its graph is gone, and from the
// same event on with other settings.
func TestReleasedPools(t *testing.T) {
	r := memtest.New(2, 15)
	frame := memtest.Of(memtest.Frame("empty_cache", "/home/u/train.py", 50))
	for in := range 3 {
		r.Free(r.AllocIn(40<<20, 0, in, stack(1)), stack(2))
	}
	r.AllocIn(3<<20, 0, 2, stack(1))
	if err := r.Empty(frame); err != nil {
		t.Fatal(err)
	}
	r.Gone(1)
	r.AllocIn(30<<20, 0, 0, stack(1))
	if err := r.Empty(frame); err != nil {
		t.Fatal(err)
	}
	r.AllocIn(60<<20, 0, 0, stack(1))
	d := asked(t, r, Options{})
	if !d.Check.Passed || d.WhatIf[0].PeakReserved != r.Stats().PeakReserved || d.WhatIf[0].DriverFrees != r.Stats().DriverFrees {
		t.Errorf("%+v, %+v; the allocator counted %+v", d.Check, d.WhatIf, r.Stats())
	}
}

// Settings that are asked for are replayed, alone and together; others are refused with
// what can be given.
func TestAskedSettings(t *testing.T) {
	r := recordedUnder(t, 15, "", pool.BySegment, 0, program(1, 100, 1, 1))
	all := []string{"max_split_size_mb:64", "expandable_segments:True,roundup_power2_divisions:2", "max_non_split_rounding_mb:64,max_split_size_mb:32"}
	d := asked(t, r, Options{Settings: all})
	for _, s := range all {
		if !slices.ContainsFunc(d.WhatIf, func(w WhatIf) bool { return w.Setting == s }) {
			t.Errorf("%s is not among %+v", s, d.WhatIf)
		}
	}
	for _, bad := range []string{"", "x", "max_split_size_mb:20", "max_split_size_mb:1e3", "expandable_segments:true", "roundup_power2_divisions:3", "garbage_collection_threshold:1", "backend:cudaMallocAsync", "max_split_size_mb:99999999999"} {
		if _, err := parseSettings(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The line to change keeps the other settings of the file and names none twice.
func TestLineOfASetting(t *testing.T) {
	s := &Settings{Text: "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64"}
	for setting, want := range map[string]string{
		"expandable_segments:False":        "expandable_segments:False,roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64",
		"without roundup_power2_divisions": "expandable_segments:True,max_split_size_mb:64  # without roundup_power2_divisions",
		"max_split_size_mb:32":             "max_split_size_mb:32,expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:4]",
	} {
		if got := (&WhatIf{Setting: setting}).confLine(s); got != allocConf+want {
			t.Errorf("%q: %q", setting, got)
		}
	}
	if s.megabytesOf("max_split_size_mb") != 64<<20 || s.megabytesOf("large_segment_size_mb") != 0 {
		t.Error("sizes of the text are read wrongly")
	}
}

// An error with memory left is a limit of the process only where the segment that the
// request needs would have fitted.
func TestCauseByTheSegment(t *testing.T) {
	r := memtest.New(2, 15)
	r.Limit = 61 << 20
	held := r.Alloc(40<<20, stack(1))
	r.Alloc(1<<20-512, stack(1)) // one of 2 MiB
	r.Free(held, stack(1))
	for range 3 {
		r.Alloc(13<<20, stack(2))
	}
	if d := asked(t, r, Options{}); len(d.OOMs) != 0 {
		t.Fatalf("%+v", d.OOMs)
	}
	b := r.Alloc(3<<20, stack(3)) // needs 20 MiB, and the driver has less
	d := asked(t, r, Options{})
	if b != nil || len(d.OOMs) != 1 || d.OOMs[0].Cause == CauseLimit {
		t.Errorf("%v, %s", b, fmt.Sprint(d.OOMs))
	}
}
