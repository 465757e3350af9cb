package memsnap

import (
	"testing"

	"pgregory.net/rapid"
)

// The table of live addresses is a map, whatever is put in and taken out.
func TestLiveRowsLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l liveRows
		l.reset()
		want := map[uint64]int{}
		spread := rapid.Uint64Range(1, 5000).Draw(rt, "spread")
		for range rapid.IntRange(1, 60).Draw(rt, "runs") {
			from, in := rapid.Uint64Range(0, spread).Draw(rt, "from"), rapid.Bool().Draw(rt, "in")
			for k := range rapid.Uint64Range(1, 300).Draw(rt, "count") {
				addr := (from + k) * 512
				at, found := l.find(addr)
				if row, has := want[addr]; found != has || has && l.rowAt(at) != row {
					rt.Fatalf("%d: found %v", addr, found)
				}
				switch {
				case in:
					l.set(addr, int(k))
					want[addr] = int(k)
				case found:
					l.drop(at)
					delete(want, addr)
				}
			}
			if l.n != len(want) {
				rt.Fatalf("%d of %d", l.n, len(want))
			}
		}
		for addr, row := range want {
			if at, found := l.find(addr); !found || l.rowAt(at) != row {
				rt.Fatalf("%d is lost", addr)
			}
		}
	})
}
