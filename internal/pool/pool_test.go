package pool

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

const mib = 1 << 20

// segments is a driver that records the mapped segments and refuses more than room.
type segments struct {
	t      testing.TB
	mapped map[int]int64
	room   int64 // 0: no limit
}

func (s *segments) Map(n int, bytes int64) error {
	if s.mapped == nil {
		s.mapped = map[int]int64{}
	}
	var used int64
	for _, b := range s.mapped {
		used += b
	}
	if s.room > 0 && used+bytes > s.room {
		return errors.New("out of memory")
	}
	if _, twice := s.mapped[n]; twice {
		s.t.Errorf("segment %d was mapped twice", n)
	}
	s.mapped[n] = bytes
	return nil
}

func (s *segments) Unmap(n int) error {
	if _, ok := s.mapped[n]; !ok {
		s.t.Errorf("segment %d was not mapped", n)
	}
	delete(s.mapped, n)
	return nil
}

func take(t testing.TB, p *Pool, bytes int64) *Block {
	t.Helper()
	b, err := p.Take(bytes, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func expect(t testing.TB, p *Pool, inUse, reserved int64) {
	t.Helper()
	if s := p.Stats(); s.InUse != inUse || s.Reserved != reserved {
		t.Errorf("in use %d, reserved %d; want %d and %d", s.InUse, s.Reserved, inUse, reserved)
	}
}

func trim(t testing.TB, p *Pool) {
	t.Helper()
	if err := p.Trim(); err != nil {
		t.Fatal(err)
	}
}

// Small and medium requests share segments, and only whole ones are returned.
func TestSegments(t *testing.T) {
	p := New(Settings{}, &segments{t: t})
	three, five := take(t, p, 3*mib), take(t, p, 5*mib)
	take(t, p, 1000)
	expect(t, p, 8389632, 22*mib)
	if n := p.Stats().DriverAllocs; n != 2 {
		t.Errorf("%d driver calls", n)
	}
	p.Give(three)
	trim(t, p)
	expect(t, p, 5*mib+1024, 22*mib)
	p.Give(five)
	trim(t, p)
	expect(t, p, 1024, 2*mib)
}

// Free blocks of different segments serve no larger request.
func TestFragmentation(t *testing.T) {
	p := New(Settings{}, &segments{t: t})
	var blocks []*Block
	for range 8 {
		blocks = append(blocks, take(t, p, 12*mib))
	}
	for i := 0; i < 8; i += 2 {
		p.Give(blocks[i])
	}
	take(t, p, 24*mib)
	expect(t, p, 72*mib, 120*mib)
	trim(t, p)
	expect(t, p, 72*mib, 72*mib)
}

// MaxSplit keeps large blocks whole, for large requests alone.
func TestMaxSplit(t *testing.T) {
	for _, tt := range []struct{ split, four, last int64 }{{0, 200, 390}, {128, 320, 320}} {
		p := New(Settings{MaxSplit: tt.split * mib}, &segments{t: t})
		p.Give(take(t, p, 200*mib))
		var b *Block
		for range 4 {
			b = take(t, p, 30*mib)
		}
		expect(t, p, 120*mib, tt.four*mib)
		p.Give(b)
		take(t, p, 190*mib)
		if r := p.Stats().Reserved; r != tt.last*mib {
			t.Errorf("max split %d: %d MiB reserved, want %d", tt.split, r/mib, tt.last)
		}
	}
}

// A pool that the driver refuses returns its idle segments and asks again.
func TestTakeWhenFull(t *testing.T) {
	p := New(Settings{}, &segments{t: t, room: 100 * mib})
	p.Give(take(t, p, 60*mib))
	take(t, p, 70*mib)
	expect(t, p, 70*mib, 70*mib)
	if _, err := p.Take(70*mib, 0, 0); err == nil {
		t.Error("140 of 100 MiB were granted")
	}
	expect(t, p, 70*mib, 70*mib)
}

// Whatever is taken and given: blocks in use overlap nowhere, counters are sums of
// blocks, and a pool that was emptied and trimmed holds nothing.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &segments{t: nil}
		p := New(Settings{MaxSplit: rapid.SampledFrom([]int64{0, 64 * mib, 128 * mib}).Draw(t, "split")}, d)
		var held []*Block
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch k := rapid.IntRange(0, 9).Draw(t, "what"); {
			case k < 5:
				b, err := p.Take(rapid.Int64Range(1, 250*mib).Draw(t, "bytes")>>rapid.IntRange(0, 12).Draw(t, "smaller"), rapid.IntRange(0, 1).Draw(t, "stream"), rapid.IntRange(0, 1).Draw(t, "pool"))
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, b)
			case k < 9 && len(held) > 0:
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				p.Give(held[i])
				held = append(held[:i], held[i+1:]...)
			default:
				if err := p.Trim(); err != nil {
					t.Fatal(err)
				}
			}
			checkLaws(t, p, d, held)
		}
		for _, b := range held {
			p.Give(b)
		}
		if err := errors.Join(p.Trim(), p.Return(1)); err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.InUse != 0 || s.Requested != 0 || s.Reserved != 0 || len(d.mapped) != 0 || s.DriverAllocs != s.DriverFrees {
			t.Fatalf("left behind: %+v, %d segments", s, len(d.mapped))
		}
	})
}

func checkLaws(t *rapid.T, p *Pool, d *segments, held []*Block) {
	var inUse, requested, reserved int64
	for i, b := range held {
		inUse, requested = inUse+b.Size, requested+b.Requested
		if b.Size < b.Requested || b.Offset%grain != 0 || b.Offset+b.Size > d.mapped[b.Segment] {
			t.Fatalf("block %+v in a segment of %d", b, d.mapped[b.Segment])
		}
		for _, o := range held[:i] {
			if o.Segment == b.Segment && o.Offset < b.Offset+b.Size && b.Offset < o.Offset+o.Size {
				t.Fatalf("%+v and %+v overlap", o, b)
			}
		}
	}
	for _, bytes := range d.mapped {
		reserved += bytes
	}
	s := p.Stats()
	if s.InUse != inUse || s.Requested != requested || s.Reserved != reserved || s.PeakInUse < inUse || s.PeakReserved < reserved || s.LargestIdle > reserved-inUse {
		t.Fatalf("%+v; blocks have %d in use, %d requested, %d reserved", s, inUse, requested, reserved)
	}
}

// pages is a Pager that knows which pages have memory and refuses beyond room.
type pages struct {
	t      testing.TB
	backed map[[2]int64]bool
	room   int
}

func (p *pages) each(segment int, offset, bytes int64, do func(at [2]int64)) {
	if bytes <= 0 || offset%(2*mib) != 0 || bytes%(2*mib) != 0 {
		p.t.Errorf("pages from %d of %d bytes", offset, bytes)
	}
	for at := offset; at < offset+bytes; at += 2 * mib {
		do([2]int64{int64(segment), at})
	}
}

func (p *pages) Grow(segment int, offset, bytes int64) error {
	if p.room > 0 && len(p.backed)+int(bytes/(2*mib)) > p.room {
		return errors.New("out of memory")
	}
	p.each(segment, offset, bytes, func(at [2]int64) {
		if p.backed[at] {
			p.t.Errorf("page %v was backed twice", at)
		}
		p.backed[at] = true
	})
	return nil
}

func (p *pages) Shrink(segment int, offset, bytes int64) error {
	p.each(segment, offset, bytes, func(at [2]int64) {
		if !p.backed[at] {
			p.t.Errorf("page %v was not backed", at)
		}
		delete(p.backed, at)
	})
	return nil
}

// In expandable segments every block has memory and no two blocks overlap. The reserved
// bytes are those with memory, and all of it can be returned when no block is left.
func TestExpandableLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := &pages{t: t, backed: map[[2]int64]bool{}, room: 200}
		p := New(Settings{Pages: mem}, nil)
		var live []*Block
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
			case op < 6:
				size := rapid.OneOf(rapid.Int64Range(1, mib), rapid.Int64Range(mib, 60*mib)).Draw(rt, "size")
				b, err := p.Take(size, rapid.IntRange(0, 1).Draw(rt, "stream"), 0)
				if err == nil {
					live = append(live, b)
				}
			case op < 9 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(rt, "block")
				p.Give(live[i])
				live = append(live[:i], live[i+1:]...)
			case op == 9:
				if err := p.Trim(); err != nil {
					rt.Fatal(err)
				}
			}
			for i, b := range live {
				for at := b.Offset / (2 * mib) * 2 * mib; at < b.Offset+b.Size; at += 2 * mib {
					if !mem.backed[[2]int64{int64(b.Segment), at}] {
						rt.Fatalf("block %+v has no memory at %d", b, at)
					}
				}
				for _, c := range live[:i] {
					if b.Segment == c.Segment && b.Offset < c.Offset+c.Size && c.Offset < b.Offset+b.Size {
						rt.Fatalf("blocks %+v and %+v overlap", b, c)
					}
				}
			}
			if s := p.Stats(); s.Reserved != int64(len(mem.backed))*2*mib || s.InUse > s.Reserved {
				rt.Fatalf("%d pages are backed, the pool counts %+v", len(mem.backed), s)
			}
		}
		for _, b := range live {
			p.Give(b)
		}
		if err := p.Trim(); err != nil || len(mem.backed) > 0 || p.Stats().Reserved != 0 || p.Stats().InUse != 0 {
			rt.Fatalf("%v: %d pages are left, %+v", err, len(mem.backed), p.Stats())
		}
	})
}

// With MaxSplit a large request that finds no memory gets that of cached segments which it
// cannot use itself, and small segments stay.
func TestMaxSplitMakesRoom(t *testing.T) {
	d := &segments{t: t, room: 122 * mib}
	p := New(Settings{MaxSplit: 30 * mib}, d)
	kept := take(t, p, 1000)
	a, b := take(t, p, 40*mib), take(t, p, 60*mib)
	cached := take(t, p, 20*mib)
	p.Give(a)
	p.Give(b)
	p.Give(cached)
	take(t, p, 100*mib) // 60 and 40 MiB are returned for it, the 20 MiB stay
	if s := p.Stats(); s.Reserved != 122*mib || s.DriverFrees != 2 || s.Retries != 0 {
		t.Errorf("%+v", s)
	}
	p.Give(kept)
}
