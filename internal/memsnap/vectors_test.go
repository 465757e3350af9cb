package memsnap

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

var update = flag.Bool("update", false, "write the made snapshots again; scripts/record/export_memory_vectors.py follows")

// counters are what PyTorch's allocator counted; none of a made recording.
func counters(t testing.TB, name string) map[string]int64 {
	t.Helper()
	var out map[string]int64
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "memory", name+".pickle.stats.json"))
	if strings.HasPrefix(name, "made-") && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// vector is a snapshot with the result of PyTorch's memory_viz.
type vector struct {
	Segments  int              `json:"segments"`
	Reserved  int64            `json:"total_reserved"`
	Allocated int64            `json:"total_allocated"`
	External  int64            `json:"free_external"`
	Internal  int64            `json:"free_internal"`
	Stacks    map[string]int64 `json:"stacks"`
	Unpaired  int              `json:"unpaired_allocs"`
	Bytes     int64            `json:"unpaired_bytes"`
}

// seenAs is the same of a replay.
func seenAs(s *Snapshot) vector {
	v := vector{Stacks: map[string]int64{}}
	for id := range s.Devices() {
		r := NewReplay(s, id)
		end := r.End()
		v.Reserved += end.Reserved
		v.Segments += len(r.spans)
		r.eachAlloc(func(a *allocation) {
			if a.born != never && a.asked == never {
				v.Unpaired++
				v.Bytes += int64(a.size)
			}
		})
	}
	for i := range s.Segments {
		for _, b := range s.Blocks(&s.Segments[i]) {
			if b.State != Active {
				v.External += int64(b.Size)
				continue
			}
			v.Allocated += int64(b.Requested)
			v.Internal += int64(b.Size - b.Requested)
			v.Stacks[folded(s.Stack(b.stack))] += int64(b.Requested)
		}
	}
	return v
}

// folded is a stack as memory_viz prints it.
func folded(stack []Frame) string {
	if len(stack) == 0 {
		return "<non-python>"
	}
	var out []string
	for _, f := range stack {
		if !f.Machinery() {
			out = append([]string{fmt.Sprintf("%s:%d:%s", path.Base(f.File), f.Line, f.Name)}, out...)
		}
	}
	return strings.Join(out, ";")
}

// Every snapshot is read as PyTorch's own pure Python reads it: sums at the end, bytes by
// stack, and allocations without a free.
func TestEqualToMemoryViz(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "memory", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]vector
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	names := fixtures(t)
	if len(want) != len(names) {
		t.Errorf("%d vectors of %d recordings", len(want), len(names))
	}
	for _, name := range names {
		if got := seenAs(fixture(t, name)); !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: %+v; memory_viz says %+v", name, got, want[name])
		}
	}
}

// made are snapshots of the modelled allocator, by name.
func made() map[string][]byte {
	out := map[string][]byte{}
	for i, minor := range []int{1, 5, 12, 15} {
		r := memtest.New(2, minor)
		r.Limit = 400 << 20
		random(r, 400, rand.New(rand.NewPCG(7, uint64(i))).IntN)
		out[fmt.Sprintf("made-2.%d", minor)] = memtest.Python(r.Snapshot(), []int{2, 4, 5, 4}[i])
		out[fmt.Sprintf("made-2.%d-cpp", minor)] = memtest.CPP(r.Snapshot())
	}
	return out
}

// The made snapshots that memory_viz was asked about are those that memtest writes.
func TestMadeSnapshots(t *testing.T) {
	for name, text := range made() {
		file := filepath.Join("..", "..", "testdata", "memory", name+".pickle.gz")
		if *update {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(text); err != nil || z.Close() != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, got := mustRead(t, text), fixture(t, name)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs from what memtest writes", name)
		}
	}
}
