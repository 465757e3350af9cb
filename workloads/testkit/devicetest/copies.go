package devicetest

import (
	"bytes"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// fillPattern fills b with bytes that differ from place to place.
func fillPattern(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
}

// checkCopies sends bytes there and back through every direction.
func checkCopies(l *lab) {
	const n = 3001
	for _, c := range []struct {
		up, down device.Place
		want     device.Meter
	}{
		{device.Pinned, device.Pinned, device.Meter{}},
		{device.Pageable, device.Pinned, device.Meter{BytesH2DPageable: n}},
		{device.Pinned, device.Pageable, device.Meter{BytesD2HPageable: n}},
		{device.Pageable, device.Pageable, device.Meter{BytesH2DPageable: n, BytesD2HPageable: n}},
	} {
		src, dst := l.alloc(n, c.up), l.alloc(n, c.down)
		a, b := l.alloc(n, device.OnDevice), l.alloc(n, device.OnDevice)
		fillPattern(src.Bytes(), 1)
		clear(dst.Bytes())
		before := l.dev.Meter()
		l.ok(l.main.Copy(a, 0, src, 0, n))
		l.ok(l.main.Copy(b, 0, a, 0, n))
		l.ok(l.main.Copy(dst, 0, b, 0, n))
		got := l.dev.Meter().Sub(before)
		c.want.CopiesH2D, c.want.CopiesD2D, c.want.CopiesD2H = 1, 1, 1
		c.want.BytesH2D, c.want.BytesD2D, c.want.BytesD2H = n, n, n
		if got != c.want {
			l.t.Errorf("%s up, %s down: counted %+v, want %+v", c.up, c.down, got, c.want)
		}
		l.ok(l.main.Sync())
		if !bytes.Equal(dst.Bytes(), src.Bytes()) {
			l.t.Errorf("%s up, %s down: the bytes changed on the way", c.up, c.down)
		}
	}
	// Host to host has no direction to count and needs no device.
	before := l.dev.Meter()
	src, dst := l.alloc(8, device.Pageable), l.alloc(8, device.Pinned)
	l.wantError(l.main.Copy(dst, 0, src, 0, 8), "main", "host")
	if m := l.dev.Meter().Sub(before); m != (device.Meter{Allocations: 2}) {
		l.t.Errorf("a refused copy was counted: %+v", m)
	}
}

func checkCopyBounds(l *lab) {
	const size = 100
	dev, host := l.alloc(size, device.OnDevice), l.alloc(size, device.Pinned)
	clear(host.Bytes())
	l.ok(l.main.Copy(dev, 0, host, 0, size))
	before := l.dev.Meter()
	for _, c := range []struct{ dst, src, n int }{
		{0, 0, size + 1}, {1, 0, size}, {0, 1, size}, {size, 0, 1}, {0, size, 1},
		{size + 1, 0, 0}, {0, size + 1, 0}, {-1, 0, 1}, {0, -1, 1}, {-1, -1, 2}, {0, 0, -1},
		{math.MaxInt, 0, 1}, {0, math.MaxInt, 1}, {1, 1, math.MaxInt}, {math.MaxInt, math.MaxInt, math.MaxInt},
		{math.MinInt, 0, 1}, {0, math.MinInt, 1}, {0, 0, math.MinInt}, {size, size, math.MinInt}, {math.MinInt, math.MinInt, math.MinInt},
	} {
		if err := l.main.Copy(dev, c.dst, host, c.src, c.n); err == nil {
			l.t.Errorf("copying %d bytes from offset %d to %d of %d was accepted", c.n, c.src, c.dst, size)
		} else {
			l.wantError(err, "main")
		}
		if err := l.main.Copy(host, c.dst, dev, c.src, c.n); err == nil {
			l.t.Errorf("copying %d bytes back from offset %d to %d of %d was accepted", c.n, c.src, c.dst, size)
		}
	}
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("refused copies were counted: %+v", m.Sub(before))
	}
	// Up to the edge everything is allowed.
	for _, c := range []struct{ dst, src, n int }{
		{0, 0, size}, {size - 1, 0, 1}, {0, size - 1, 1}, {size, size, 0}, {0, size, 0}, {40, 60, 40}, {60, 40, 40},
	} {
		l.ok(l.main.Copy(dev, c.dst, host, c.src, c.n))
	}
	l.ok(l.main.Sync())
}

func checkOddSizes(l *lab) {
	empty := l.alloc(0, device.OnDevice)
	emptyHost := l.alloc(0, device.Pinned)
	if empty.Len() != 0 || emptyHost.Len() != 0 {
		l.t.Errorf("empty buffers of %d and %d bytes", empty.Len(), emptyHost.Len())
	}
	y := l.newBuffer(6, 6)
	before := l.dev.Meter()
	l.launch(l.main, "fill", 0, y, 1)
	l.launch(l.main, "fill", 0, empty, 1)
	l.ok(l.main.Copy(empty, 0, emptyHost, 0, 0))
	if m := l.dev.Meter().Sub(before); m != (device.Meter{Launches: 2, CopiesH2D: 1}) {
		l.t.Errorf("work on nothing is counted as what was asked: got %+v", m)
	}
	l.launch(l.main, "chain", 1, y, 1)
	if got := l.readInts(l.main, y); got[0] != 19 || got[1] != 6 {
		l.t.Errorf("got %v, want [19 6]", got)
	}
	l.ok(empty.Free())
	l.ok(emptyHost.Free())
	l.wantError(empty.Free(), "freed")

	for _, n := range []int{1, 3, 7, 63, 65, 4097} {
		host, dev := l.alloc(n+5, device.Pinned), l.alloc(n+3, device.OnDevice)
		fillPattern(host.Bytes(), byte(n))
		want := bytes.Clone(host.Bytes()[1 : 1+n])
		l.ok(l.main.Copy(dev, 3, host, 1, n))
		l.ok(l.main.Sync())
		clear(host.Bytes())
		l.ok(l.main.Copy(host, 5, dev, 3, n))
		l.ok(l.main.Sync())
		if !bytes.Equal(host.Bytes()[5:], want) || !bytes.Equal(host.Bytes()[:5], make([]byte, 5)) {
			l.t.Errorf("%d bytes at odd offsets came back different", n)
		}
	}
	for _, n := range []int{1, 2, 31, 33, 257, 1025} {
		b := l.alloc(4*n+4, device.OnDevice)
		l.launch(l.main, "fill", n+1, b, 1)
		l.launch(l.main, "chain", n, b, 1)
		got := l.readInts(l.main, b)
		for k, v := range got[:n] {
			if v != 4 {
				l.t.Fatalf("item %d of %d is %d, want 4", k, n, v)
			}
		}
		if got[n] != 1 {
			l.t.Errorf("%d items: the one behind the last was touched", n)
		}
	}
}
