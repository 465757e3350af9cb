package collate

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// writeStructures makes a folder of n small structures of different sizes, some
// as extended XYZ and some as POSCAR, with other files beside them.
func writeStructures(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		atoms := 1 + i%4
		a := 3 + 0.1*float64(i%7)
		if i%3 == 2 {
			text := fmt.Sprintf("structure %d\n1.0\n%g 0 0\n0 %g 0\n0 0 %g\nC\n%d\nDirect\n", i, a, a, a, atoms)
			for k := range atoms {
				text += fmt.Sprintf("%g %g %g\n", 0.21*float64(k), 0.17*float64(k), 0.24*float64(k))
			}
			put(fmt.Sprintf("%04d.vasp", i), text)
			continue
		}
		text := fmt.Sprintf("%d\nLattice=\"%g 0 0 0 %g 0 0 0 %g\" Properties=species:S:1:pos:R:3\n", atoms, a, a, a)
		for k := range atoms {
			text += fmt.Sprintf("%s %g %g %g\n", []string{"Si", "O"}[k%2], 0.7*float64(k), 0.5*float64(k), 0.6*float64(k))
		}
		put(fmt.Sprintf("%04d.xyz", i), text)
	}
	put("README", "no structure")
	return dir
}

// hashes runs n steps and digests each batch in the device's memory.
func hashes(t testing.TB, s *session, n int) []uint64 {
	t.Helper()
	return hashesFrom(t, s, 0, n)
}

func hashesFrom(t testing.TB, s *session, from, n int) []uint64 {
	t.Helper()
	var out []uint64
	for i := from; i < from+n; i++ {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		out = append(out, digest(t, s, i))
	}
	return out
}

func digest(t testing.TB, s *session, i int) uint64 {
	t.Helper()
	if err := s.Compute.Sync(); err != nil {
		t.Fatal(err)
	}
	l := &s.lanes[i%depth]
	on := l.from
	on.mem, on.at = l.dev.Bytes(), l.placed.at
	h := fnv.New64a()
	fmt.Fprint(h, on.rows)
	for f := range fields {
		h.Write(on.bytesOf(f))
	}
	return h.Sum64()
}

// What a batch holds and when it comes depends on nothing but model, seed and
// batch size: every kind of workers on two sources of samples in turn,
// TestOrderOfEverySource has the others.
func TestOrderDoesNotDependOnWorkers(t *testing.T) {
	sameOrder(t, func(source, workers int) bool { return (source+workers)%5 < 2 })
}

// sameOrder wants the same batches of the chosen pairs of sources and workers.
func sameOrder(t *testing.T, chosen func(source, workers int) bool) {
	t.Helper()
	dir := writeStructures(t, 23)
	tests := []struct{ name, set string }{
		{"drawn", "batch=5,probes=8"},
		{"padded", "batch=5,probes=8,padded=on"},
		{"single", "batch=1,probes=8"},
		{"folder", "batch=4,probes=6,structures=" + dir},
		{"folder padded single", "batch=1,probes=6,padded=on,structures=" + dir},
	}
	variants := []string{
		"workers=1", "workers=2", "workers=5", "workers=2,prefetch=1", "workers=5,prefetch=4,sync=never",
		"workers=1,worker_kind=process", "workers=2,worker_kind=process,pinned=off", "workers=3,worker_kind=process,persistent=off,epoch=3",
		"workers=2,persistent=off,epoch=4", "workers=0,impl=naive", "workers=0,impl=bulk", "workers=2,impl=naive,reuse=off,shortcut=off",
		"workers=0,reuse=off", "workers=0,shortcut=off", "workers=0,pinned=batch", "workers=0,pinned=off", "workers=2,pinned=off,streams=1,sync=never",
		"workers=0,async_copy=off,streams=1,sync=every:3", "workers=1,impl=bulk,reuse=off,pinned=off", "workers=2,impl=naive,worker_kind=process",
	}
	for source, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const n = 9
			base := hashes(t, openSession(t, "small", append(strings.Split(tt.set, ","), "workers=0")...), n)
			if unique := slices.Compact(slices.Sorted(slices.Values(base))); len(unique) < n/2 {
				t.Fatalf("only %d of %d batches differ from each other", len(unique), n)
			}
			for workers, v := range variants {
				if !chosen(source, workers) {
					continue
				}
				s := openSession(t, "small", append(strings.Split(tt.set, ","), strings.Split(v, ",")...)...)
				if got := hashes(t, s, n); !slices.Equal(got, base) {
					t.Errorf("%s: batches %x, want %x", v, got, base)
				}
				// A jump back, as the counting pass makes, brings the same batches.
				if got := hashes(t, s, 3); !slices.Equal(got, base[:3]) {
					t.Errorf("%s: after a jump batches %x, want %x", v, got, base[:3])
				}
			}
		})
	}
}

// The seed decides the data, and mode hot repeats one batch.
func TestSeedAndMode(t *testing.T) {
	open := func(seed uint64, mode string) *session {
		c := resolve(t, "small", "batch=3", "probes=10")
		c.Seed, c.Mode = seed, "steady"
		if mode != "" {
			c.Mode = "hot"
		}
		s, err := open(t.Context(), openHost(t, 0), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one, two, hot := hashes(t, open(1, ""), 4), hashes(t, open(2, ""), 4), hashes(t, open(1, "hot"), 4)
	if slices.Equal(one, two) {
		t.Error("two seeds give the same batches")
	}
	if hot[0] != one[0] || hot[1] != hot[0] || one[1] == one[0] {
		t.Errorf("hot %x, steady %x: want the first batch over and over", hot, one)
	}
}

// A folder is streamed: thousands of files, a few batches' worth in memory, and
// batches that outgrow what the first file promised.
func TestFolderIsStreamedAndGrows(t *testing.T) {
	dir := t.TempDir()
	for i := range 2000 {
		atoms := 1 + i/20 // the last has a hundred times the atoms of the first
		text := fmt.Sprintf("%d\n\n", atoms)
		for k := range atoms {
			text += fmt.Sprintf("C %g %g %g\n", 1.5*float64(k%5), 1.5*float64(k/5%5), 1.5*float64(k/25))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.xyz", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []string{"workers=2,pinned=on", "workers=2,pinned=off", "workers=0,pinned=off", "workers=1,worker_kind=process", "workers=0,batch=1", "workers=1,pinned=off,batch=1,impl=bulk"} {
		t.Run(v, func(t *testing.T) {
			s := openSession(t, "small", append([]string{"batch=2", "probes=3", "cutoff=2", "structures=" + dir}, strings.Split(v, ",")...)...)
			caps := s.lanes[0].placed.caps
			for _, at := range []int{0, 1, 700, 701, 702, 703, 704, 705, 706, 1, 2, 3} {
				c := &checker{s: s, ctx: t.Context(), rng: newDrawer().rng}
				if err := c.checkBatch(at); err != nil {
					t.Fatal(err)
				}
				for _, check := range c.stageChecks() {
					if !check.Pass {
						t.Errorf("batch %d: %+v", at, check)
					}
				}
			}
			if s.lanes[0].placed.caps[uAtom] <= caps[uAtom] {
				t.Error("no batch was larger than the first file promised: the test shows nothing")
			}
			for _, sl := range s.own {
				if kept := len(s.maker.sampler.kept); kept > keptStructures || sl == nil {
					t.Errorf("%d structures are kept, the limit is %d", kept, keptStructures)
				}
			}
		})
	}
}

// After a pause nothing is made, nothing made ahead is left, and the batches that
// follow are the same as ever.
func TestPause(t *testing.T) {
	base := hashes(t, openSession(t, "small", "batch=5", "probes=8", "workers=0"), 7)
	for _, v := range []string{"workers=0", "workers=1", "workers=3,prefetch=4", "workers=2,persistent=off,epoch=4", "workers=2,worker_kind=process"} {
		var made atomic.Int64
		s := openOn(t, openHost(t, 0), func(int) { made.Add(1) }, "small", append([]string{"batch=5", "probes=8"}, strings.Split(v, ",")...)...)
		var got []uint64
		for i := range base {
			got = append(got, hashesFrom(t, s, i, 1)...)
			lead, err := s.Pause()
			if err != nil {
				t.Fatal(err)
			}
			if s.pool == nil {
				if lead != 0 {
					t.Errorf("%s: %d steps to catch up without workers", v, lead)
				}
				continue
			}
			before := made.Load()
			if lead != s.pool.ahead || s.pool.taken != s.pool.asked || s.pool.ready.Load() != 0 {
				t.Fatalf("%s: after step %d lead %d, %d of %d batches taken, %d ready", v, i, lead, s.pool.taken, s.pool.asked, s.pool.ready.Load())
			}
			if again, err := s.Pause(); err != nil || again != lead || made.Load() != before {
				t.Errorf("%s: a second pause: lead %d, %d batches made meanwhile, %v", v, again, made.Load()-before, err)
			}
		}
		if !slices.Equal(got, base) {
			t.Errorf("%s: batches %x, want %x", v, got, base)
		}
	}
}
