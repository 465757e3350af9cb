package pool

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list of parts is a sorted list: whatever is put in and taken out, every place is found
// and the order is kept.
func TestListLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var work int64
		l := list{order: func(a, b *Block) int { return cmp.Compare(a.Offset, b.Offset) }, work: &work}
		var want []int64
		for range rapid.IntRange(1, 40).Draw(rt, "runs") {
			from, n := rapid.Int64Range(0, 4000).Draw(rt, "from"), rapid.Int64Range(1, 600).Draw(rt, "count")
			in := rapid.Bool().Draw(rt, "in")
			for at := from; at < from+n; at++ {
				k, found := slices.BinarySearch(want, at)
				switch {
				case in && !found:
					want = slices.Insert(want, k, at)
					l.insert(&Block{Offset: at})
				case !in && found:
					want = slices.Delete(want, k, k+1)
					l.drop(&Block{Offset: at})
				}
			}
			var got []int64
			for _, b := range l.blocks() {
				got = append(got, b.Offset)
			}
			if !slices.Equal(got, want) || l.n != len(want) {
				rt.Fatalf("%d of %d entries", len(got), len(want))
			}
			k, _ := slices.BinarySearch(want, from)
			at := l.find(&Block{Offset: from})
			if b := l.get(at); (b == nil) != (k == len(want)) || b != nil && b.Offset != want[k] {
				rt.Fatalf("%d is found at %+v", from, at)
			}
			if back, ok := l.previous(at); ok != (k > 0) || ok && l.get(back).Offset != want[k-1] {
				rt.Fatalf("before %d is %+v", from, back)
			}
		}
	})
}

// A change of a list of many blocks moves few of them: the work for n blocks that are put
// in front is far below n times n.
func TestWorkOfLongLists(t *testing.T) {
	const n = 100_000
	p := New(Settings{}, &segments{t: t})
	blocks := make([]*Block, n)
	for i := range blocks {
		blocks[i] = take(t, p, 512)
	}
	for i := n - 1; i >= 0; i -= 2 {
		p.Give(blocks[i])
	}
	if p.Work() > 2000*n {
		t.Errorf("%d entries were moved or looked at for %d blocks", p.Work(), n)
	}
}

// Above its threshold the collection returns the whole idle segments that were not used for
// at least the average time, until the excess is gone. Ages are searches for large blocks.
func TestCollection(t *testing.T) {
	for _, tt := range []struct {
		part  float64
		freed int
		left  int64
	}{{0.7, 0, 182}, {0.5, 1, 142}, {0.3, 2, 92}} {
		p := New(Settings{Allowed: 200 * mib, Collect: tt.part}, &segments{t: t})
		old, middle, young := take(t, p, 30*mib), take(t, p, 40*mib), take(t, p, 50*mib)
		p.Give(take(t, p, 100)) // a segment of small blocks, which is never returned
		p.Give(old)
		take(t, p, 12*mib) // out of the 30 MiB; they are no whole segment then
		p.Give(middle)
		take(t, p, 9*mib)
		p.Give(young)
		take(t, p, 60*mib)
		// 122 MiB were reserved. The 40 MiB were not used for two searches and the 50 MiB for
		// one, so the 40 MiB are above the average; what is left is its own average.
		if s := p.Stats(); s.DriverFrees != tt.freed || s.Reserved != tt.left*mib || s.Retries != 0 {
			t.Errorf("%g: %+v", tt.part, s)
		}
	}
	for _, set := range []Settings{{Collect: 0.5}, {Allowed: 400 * mib, Collect: 0.5}} { // no limit; below the threshold
		p := New(set, &segments{t: t})
		p.Give(take(t, p, 30*mib))
		take(t, p, 60*mib)
		if s := p.Stats(); s.DriverFrees != 0 {
			t.Errorf("%+v: %+v", set, s)
		}
	}
}

// A process reserves no more than it is allowed; what is cached is returned for that first.
func TestAllowed(t *testing.T) {
	p := New(Settings{Allowed: 100 * mib}, &segments{t: t})
	p.Give(take(t, p, 60*mib))
	take(t, p, 70*mib)
	if s := p.Stats(); s.Reserved != 70*mib || s.Retries != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := p.Take(31*mib, 0, 0); err == nil {
		t.Error("102 of 100 MiB were reserved")
	}
}

// released is a driver whose pool 1 can be returned.
type released struct {
	segments
	told bool
}

func (r *released) Released() (int, bool) {
	r.told = !r.told
	return 1, r.told
}

// Pools share no memory. Only pool 0, and what a Releaser names, is returned.
func TestPrivatePools(t *testing.T) {
	for _, tt := range []struct {
		d    Driver
		left int64
	}{{&segments{t: t}, 82 * mib}, {&released{segments: segments{t: t}}, 42 * mib}} {
		p := New(Settings{}, tt.d)
		for _, in := range []int{0, 1, 2} {
			b, err := p.Take(40*mib, 0, in)
			if err != nil {
				t.Fatal(err)
			}
			p.Give(b)
		}
		b, err := p.Take(1000, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, p, 1024, 122*mib)
		trim(t, p)
		expect(t, p, 1024, tt.left)
		p.Give(b)
	}
	p := New(Settings{}, &segments{t: t, room: 50 * mib}) // a request of a pool returns nothing
	p.Give(take(t, p, 40*mib))
	if _, err := p.Take(20*mib, 0, 1); err == nil || p.Stats().Reserved != 40*mib || p.Stats().Retries != 0 {
		t.Errorf("%v, %+v", err, p.Stats())
	}
}

// addressed hands out falling addresses.
type addressed struct{ segments }

func (a *addressed) Base(segment int) uint64 { return uint64(1000-segment) << 40 }

// Among idle blocks of equal size the order decides: the first segment, the block with the
// lowest number, or the lowest address.
func TestOrders(t *testing.T) {
	for order, want := range map[Order]int{BySegment: 0, ByBlock: 1, ByAddress: 2} {
		p := New(Settings{Order: order}, &addressed{segments{t: t}})
		var blocks []*Block
		for range 3 {
			blocks = append(blocks, take(t, p, 12*mib))
		}
		first := take(t, p, 12*mib)
		p.Give(blocks[0])
		half := take(t, p, 6*mib) // the rest of a block keeps its number, the front has a new one
		p.Give(half)
		for _, b := range []*Block{blocks[2], blocks[1]} {
			p.Give(b)
		}
		p.Give(first)
		// Segment 0 has the highest number now, as its front was given last of its parts.
		got := take(t, p, 12*mib)
		if order == ByAddress {
			want = first.Segment // the lowest address is that of the last segment
		}
		if got.Segment != want {
			t.Errorf("by %v: segment %d, want %d", order, got.Segment, want)
		}
	}
}

// A pool that begins with segments goes on as the one that made them.
func TestAdopt(t *testing.T) {
	a := New(Settings{}, &segments{t: t})
	x, y := take(t, a, 3*mib), take(t, a, 5*mib)
	a.Give(x)
	b := New(Settings{}, &segments{t: t, mapped: map[int]int64{0: 20 * mib}})
	n, taken := b.Adopt(0, 0, 0, []Part{{Size: 3 * mib}, {Size: 5 * mib, Requested: 5 * mib, Taken: true}, {Size: 12 * mib}})
	if n != 0 || len(taken) != 1 || b.Stats().DriverAllocs != 0 {
		t.Errorf("segment %d, %d taken, %+v", n, len(taken), b.Stats())
	}
	for _, p := range []*Pool{a, b} {
		expect(t, p, 5*mib, 20*mib)
		if z := take(t, p, 2*mib); z.Offset != 0 || z.Size != 3*mib { // a rest of 1 MiB is not cut off
			t.Errorf("%+v", z)
		}
		if z := take(t, p, 10*mib); z.Offset != 8*mib {
			t.Errorf("%+v", z)
		}
	}
	a.Give(y)
	b.Give(taken[0])
	for _, p := range []*Pool{a, b} {
		if z := take(t, p, 5*mib); z.Offset != 3*mib {
			t.Errorf("%+v", z)
		}
	}
}

// large_segment_size_mb and max_non_split_rounding_mb change the sizes that they name.
func TestSizesOfSegments(t *testing.T) {
	p := New(Settings{Medium: 32 * mib}, &segments{t: t})
	take(t, p, 3*mib)
	expect(t, p, 3*mib, 32*mib)
	p = New(Settings{MaxSplit: 30 * mib, MaxRounding: 40 * mib}, &segments{t: t})
	p.Give(take(t, p, 70*mib))
	take(t, p, 40*mib) // 30 MiB too large, which is allowed
	expect(t, p, 70*mib, 70*mib)
}
