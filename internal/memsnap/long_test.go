//go:build !race

// One goroutine reads gigabytes and counts what is allocated, which the race detector
// changes.

package memsnap

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// repeated reads a text n times.
type repeated struct {
	text []byte
	at   int
	n    int64
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) && r.n > 0 {
		k := copy(p[n:], r.text[r.at:])
		n += k
		if r.at += k; r.at == len(r.text) {
			r.at = 0
			r.n--
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// behind is a snapshot whose root begins with so many mebibytes of a member that nothing
// knows.
func behind(t *testing.T, text []byte, mebibytes int64) (r io.Reader, before int64) {
	t.Helper()
	at := bytes.IndexByte(text, '(') + 1
	word := func(s string) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s))), s...)
	}
	// Each of its strings is taken off the stack again, as one of a list of one.
	item := append(append([]byte("]"), word(strings.Repeat("x", longestText))...), "aa"...)
	head := append(bytes.Clone(text[:at]), append(word("later"), ']')...)
	return io.MultiReader(bytes.NewReader(head), &repeated{text: item, n: mebibytes}, bytes.NewReader(text[at:])), int64(len(head)-at) + mebibytes*int64(len(item))
}

// Places in a file, addresses and sizes are counted beyond 4 GiB: a snapshot behind 5 GiB of
// text is the snapshot, and what is wrong there is called by its place.
func TestMoreThanFourGigabytes(t *testing.T) {
	const mebibytes = 5 << 10
	r := memtest.New(2, 15)
	big := r.Alloc(5<<30, memtest.Of(memtest.Frame("f", "train.py", 1)))
	r.Free(r.Alloc(6<<30, nil), nil)
	text := memtest.Python(r.Snapshot(), 4)
	long, before := behind(t, text, mebibytes)
	s, err := Read(context.Background(), long, "x.pickle", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if want := before + int64(len(text)); s.Bytes != want || want < 5<<30 {
		t.Errorf("%d bytes were read of %d", s.Bytes, want)
	}
	a, err := Analyze(context.Background(), []*Snapshot{s}, gpuprof.Tool{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := &a.Devices[0]; d.Peak.Requested != 11<<30 || d.End.Requested != 5<<30 || d.Moved != 0 || !d.Check.Passed || big.Size < 5<<30 {
		t.Errorf("%d bytes at the peak and %d at the end, %d contradictions, %+v", d.Peak.Requested, d.End.Requested, d.Moved, d.Check)
	}
	wrong := bytes.Clone(text)
	wrong[len(wrong)-1] = 'R'
	long, before = behind(t, wrong, mebibytes)
	_, err = Read(context.Background(), long, "x.pickle", 64<<20)
	if place := fmt.Sprintf("byte %d: ", before+int64(len(wrong))-1); err == nil || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), "REDUCE") {
		t.Errorf("%v, want %q", err, place)
	}
}

// An event takes 8 bytes, and an allocation, which has three of them, 32.
func TestKeptOfEachEvent(t *testing.T) {
	var text bytes.Buffer
	events, err := memtest.Long(&text, 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := mustRead(t, text.Bytes())
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	runtime.KeepAlive(text.Bytes())
	// The contract allows 24 in the whole process; chunks that are not full are the rest.
	if each := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / float64(events); each > 20 {
		t.Errorf("%.1f bytes are kept of each of %d events", each, events)
	} else {
		t.Logf("%.2f bytes", each)
	}
}

// A recording without steps is replayed once for its levels: what holds nothing at the peak
// has no claim to replay it for.
func TestFewPasses(t *testing.T) {
	var text bytes.Buffer
	if _, err := memtest.Long(&text, 100_000); err != nil {
		t.Fatal(err)
	}
	a, err := Analyze(context.Background(), []*Snapshot{mustRead(t, text.Bytes())}, gpuprof.Tool{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := a.Devices[0].Replay.passes; n > 1 {
		t.Errorf("%d passes over the events", n)
	}
}

// lateMillion is a recording of a million events that begins when 2,000 blocks live.
func lateMillion(b *testing.B) []byte {
	b.Helper()
	r := memtest.New(2, 15)
	rng := rand.New(rand.NewPCG(1, 2))
	var live []*pool.Block
	stacks := make([]*memtest.List, 50)
	for i := range stacks {
		stacks[i] = memtest.Of(memtest.Frame("f", "train.py", i+1))
	}
	const events = 1_000_000
	for len(r.Events) < events+50_000 {
		if len(live) < 2000 || rng.IntN(2) == 0 && len(live) < 4000 {
			live = append(live, r.Alloc(int64(512<<rng.IntN(13)), stacks[rng.IntN(len(stacks))]))
			continue
		}
		k := rng.IntN(len(live))
		r.Free(live[k], nil)
		live[k] = live[len(live)-1]
		live = live[:len(live)-1]
	}
	r.Forget(events)
	return memtest.Python(r.Snapshot(), 4)
}

// BenchmarkLate reads and replays a recording of a million events that begins late, with
// every setting.
func BenchmarkLate(b *testing.B) {
	text := lateMillion(b)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := mustRead(b, text)
		a, err := Analyze(context.Background(), []*Snapshot{s}, gpuprof.Tool{}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if d := &a.Devices[0]; d.Complete || !d.Check.Passed {
			b.Fatal(errors.New(d.Check.Reason))
		}
	}
}
