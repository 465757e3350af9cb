package cupti

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// limited is what Limit leaves of a recording.
func limited(t *testing.T, text []byte, stretch int64) (left int, out []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cuda-1.gpt")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err = Limit(t.Context(), f, stretch); err != nil {
		t.Fatal(err)
	}
	if out, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return left, out
}

// What begins after the window is taken away and counted, wherever it lies in the file; the rest stays as it was.
func TestLimit(t *testing.T) {
	const n = 20
	full := newBuilder()
	full.text(tProcess, "pid=7\n")
	full.record(tClock, second, second+5000, uint64(5), uint32(40), uint32(0)) // NVTX is 5 us ahead
	full.call("cuInit", second-900, second-800, 1, 77, 0)
	late, short := 0, newBuilder()
	short.Write(full.Bytes()[short.Len():])
	short.names = map[string]uint32{"cuInit": 1}
	for i := range uint64(n) {
		i = (i + 5) % n // streams do not deliver in order
		at := second + 1000*i
		for _, b := range []*builder{full, short} {
			if b == short && i > 10 {
				continue
			}
			b.nvtx(opMark, "m", at+5000, 77, 0, 0)
			b.call("cuLaunchKernel", at, at+10, uint32(i+2), 77, 0)
			b.kernel("k", at, at+5000, uint32(i+2), 7, 0)
			b.copy(copyH2D, 1, 3, 64, at, at+10, uint32(i+2))
		}
		if i > 10 {
			late += 4
		}
	}
	for _, b := range []*builder{full, short} {
		b.record(tLost, uint64(1), uint64(0), uint64(0), uint64(0), uint64(0))
		b.end()
	}
	for name, c := range map[string]struct {
		text, want []byte
		stretch    int64
		left       int
	}{
		"its window":       {full.Bytes(), short.Bytes(), 10_000, late},
		"all of it":        {full.Bytes(), full.Bytes(), n * 1000, 0},
		"nothing is later": {short.Bytes(), short.Bytes(), 10_000, 0},
		"no operation":     {newBuilder().Bytes(), newBuilder().Bytes(), 0, 0},
	} {
		left, got := limited(t, c.text, c.stretch)
		if left != c.left || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d records left out, want %d; %d bytes, want %d", name, left, c.left, len(got), len(c.want))
		}
	}
	torn := full.Bytes()[:full.Len()-7]
	if left, got := limited(t, torn, 10_000); left != late || len(listChunks(bytes.NewReader(got))) == 0 {
		t.Errorf("of a torn file %d records were left out, want %d", left, late)
	}
}

// A copy long before the first kernel, as a loaded machine makes them, begins no window: one of copies alone would be none.
func TestWindowBeginsWithAKernel(t *testing.T) {
	b := newBuilder()
	b.copy(copyH2D, 1, 3, 64, second, second+10, 2)
	b.kernel("k", second+50_000, second+51_000, 3, 7, 0)
	b.kernel("k", second+70_000, second+71_000, 4, 7, 0)
	b.end()
	want := newBuilder()
	want.copy(copyH2D, 1, 3, 64, second, second+10, 2)
	want.kernel("k", second+50_000, second+51_000, 3, 7, 0)
	want.end()
	if left, got := limited(t, b.Bytes(), 10_000); left != 1 || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d records left out; %d bytes, want %d", left, len(got), want.Len())
	}
	copies := newBuilder()
	copies.copy(copyH2D, 1, 3, 64, second, second+10, 2)
	copies.copy(copyH2D, 1, 3, 64, second+50_000, second+50_010, 3)
	copies.end()
	if left, _ := limited(t, copies.Bytes(), 10_000); left != 1 {
		t.Errorf("of copies alone %d records are left out", left)
	}
}
