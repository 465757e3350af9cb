package cupti

import (
	"bytes"
	"testing"
)

// The last stretch of a recording that grows is read with the names and devices of all of it, up
// to its last whole chunk.
func TestReadSince(t *testing.T) {
	b := newBuilder()
	var times []int
	for i := range uint64(10) { // a chunk a second
		b.kernel("k", second+i*1e9, second+i*1e9+500, uint32(i+1), 7, 0)
		times = append(times, b.Len())
	}
	whole := b.Bytes()
	// The builder writes chunks of time 0: the heads get theirs.
	for i, p := range listChunks(bytes.NewReader(whole)) {
		if p.kind == tKernel {
			le.PutUint64(whole[p.offset-8:], second+uint64(i)*1e9)
		}
	}
	all := listChunks(bytes.NewReader(whole))
	last := all[len(all)-1].at
	for cut, want := range map[int]int{0: 4, 3: 4, len(whole) - times[8]: 4} {
		text := whole[:len(whole)-cut]
		tr, at, err := ReadSince(t.Context(), bytes.NewReader(text), "x", 3e9)
		if err != nil || tr == nil || len(tr.GPU) != want || tr.Name(tr.GPU[0].Name) != "k" || tr.Truncated {
			t.Fatalf("%d bytes less: %+v, %v", cut, tr, err)
		}
		if (at == last) != (cut == 0) {
			t.Errorf("%d bytes less: written at %d, the whole at %d", cut, at, last)
		}
	}
	for _, text := range [][]byte{nil, []byte("other"), whole[:headBytes], whole[:headBytes+10]} {
		if tr, _, err := ReadSince(t.Context(), bytes.NewReader(text), "x", 3e9); tr != nil || (err == nil) != (len(text) >= headBytes) {
			t.Errorf("%d bytes: %+v, %v", len(text), tr, err)
		}
	}
}
