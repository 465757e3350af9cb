package gridsim

import (
	"fmt"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
)

// requests records the requests to the pool, in order, for replays with other settings. Its memory is allocated at the
// start, so that recording allocates nothing; requests beyond it are not replayed.
type requests struct {
	list  []request
	taken int32 // blocks
}

// request takes a block of bytes under a number; without bytes it gives the block of the
// number, and of number -1 it trims.
type request struct {
	bytes  int64
	number int32
}

// mostRequests holds the requests of a few thousand steps in 1 MiB.
const mostRequests = 1 << 16

func newRequests() requests { return requests{list: make([]request, 0, mostRequests)} }

func (r *requests) record(q request) {
	if len(r.list) < cap(r.list) {
		r.list = append(r.list, q)
	}
}

// recordTake records a block and returns its number.
func (r *requests) recordTake(bytes int64) int32 {
	r.taken++
	r.record(request{bytes, r.taken})
	return r.taken
}

func (r *requests) recordGive(number int32) { r.record(request{0, number}) }
func (r *requests) recordTrim()             { r.record(request{0, -1}) }

// nowhereToMap is memory of which only the size counts.
type nowhereToMap struct{}

func (nowhereToMap) Map(int, int64) error { return nil }
func (nowhereToMap) Unmap(int) error      { return nil }

// peakWith returns the peak reservation, in bytes, of the same requests with other settings; without trims where trims
// is not set.
func (r *requests) peakWith(set pool.Settings, trims bool) int64 {
	p := pool.New(set, nowhereToMap{})
	held := map[int32]*pool.Block{}
	for _, q := range r.list {
		switch b := held[q.number]; {
		case q.bytes > 0:
			held[q.number], _ = p.Take(q.bytes, 0, 0) // there is always room
		case q.number < 0 && trims:
			_ = p.Trim() // nothing is unmapped that could fail
		case b != nil:
			p.Give(b)
			delete(held, q.number)
		}
	}
	return p.Stats().PeakReserved
}

// otherSettings returns the values of knobs to replay for a session that trims or does not.
func otherSettings(trims bool) []string {
	out := []string{"max_split=none", "max_split=32", "max_split=64", "max_split=128", "max_split=256", "max_split=512"}
	if trims {
		out = append(out, "pool_trim="+never)
	}
	return out
}

// addReplays adds to figures the setting of a knob with the least reservation for the requests of this session, if any
// is below the present settings.
func (p *pooled) addReplays(maxSplit int, trims bool, figures map[string]any) {
	own := pool.Settings{MaxSplit: int64(maxSplit) << 20}
	present := p.asked.peakWith(own, true)
	figures[gpuprof.InputReplayedPeak] = present
	least, best := present, ""
	for _, setting := range otherSettings(trims) {
		other, trimmed := own, true
		var mib string
		if n, _ := fmt.Sscanf(setting, "max_split=%s", &mib); n == 1 {
			v, _ := strconv.Atoi(mib) // none is 0
			other.MaxSplit = int64(v) << 20
		} else {
			trimmed = false
		}
		if peak := p.asked.peakWith(other, trimmed); peak < least {
			least, best = peak, setting
		}
	}
	if best != "" {
		figures[gpuprof.InputBestSetting], figures[gpuprof.InputBestPeak] = best, least
	}
}
