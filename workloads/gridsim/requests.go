package gridsim

import (
	"fmt"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
)

// requests records the requests to the pool in order, so that they can be replayed with other settings. Its memory is
// allocated at the start; when it is full, further requests are not recorded.
type requests struct {
	list  []request
	taken int32 // number of blocks taken
}

// request takes a block of bytes and gives it a number. With bytes = 0 it returns the block of this number to the
// pool, or trims the pool if the number is -1.
type request struct {
	bytes  int64
	number int32
}

// mostRequests is the largest number of recorded requests: a few thousand steps in 1 MiB.
const mostRequests = 1 << 16

func newRequests() requests { return requests{list: make([]request, 0, mostRequests)} }

func (r *requests) record(q request) {
	if len(r.list) < cap(r.list) {
		r.list = append(r.list, q)
	}
}

// recordTake records a taken block and returns its number.
func (r *requests) recordTake(bytes int64) int32 {
	r.taken++
	r.record(request{bytes, r.taken})
	return r.taken
}

func (r *requests) recordGive(number int32) { r.record(request{0, number}) }
func (r *requests) recordTrim()             { r.record(request{0, -1}) }

// nullDriver takes the place of the device's memory in a replay: only sizes matter, so it maps nothing.
type nullDriver struct{}

func (nullDriver) Map(int, int64) error { return nil }
func (nullDriver) Unmap(int) error      { return nil }

// peakWith replays the requests with other settings and returns the peak reservation in bytes. If trims is false, the
// replay leaves out the recorded trims.
func (r *requests) peakWith(set pool.Settings, trims bool) int64 {
	p := pool.New(set, nullDriver{})
	held := map[int32]*pool.Block{}
	for _, q := range r.list {
		switch b := held[q.number]; {
		case q.bytes > 0:
			held[q.number], _ = p.Take(q.bytes, 0, 0) // nullDriver always has room
		case q.number < 0 && trims:
			_ = p.Trim() // Unmap cannot fail here
		case b != nil:
			p.Give(b)
			delete(held, q.number)
		}
	}
	return p.Stats().PeakReserved
}

// otherSettings returns the settings of the pool with which the session's requests are replayed, among them
// pool_trim=never if the session trims its pool.
func otherSettings(trims bool) []string {
	out := []string{"max_split=none", "max_split=32", "max_split=64", "max_split=128", "max_split=256", "max_split=512"}
	if trims {
		out = append(out, "pool_trim="+never)
	}
	return out
}

// addReplays replays the requests and adds the pool's peak reservations, in bytes, to figures. It adds the peak with
// the current settings. If another setting has a lower peak, it also adds the best setting and its peak.
func (p *pooled) addReplays(maxSplit int, trims bool, figures map[string]any) {
	own := pool.Settings{MaxSplit: int64(maxSplit) << 20}
	present := p.asked.peakWith(own, true)
	figures[gpuprof.InputReplayedPeak] = present
	least, best := present, ""
	for _, setting := range otherSettings(trims) {
		other, trimmed := own, true
		var mib string
		if n, _ := fmt.Sscanf(setting, "max_split=%s", &mib); n == 1 {
			v, _ := strconv.Atoi(mib) // "none" becomes 0
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
