package kineto

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// arrow is the place of one end of a flow: a track and a time.
type arrow struct {
	pid, tid, ts int64
}

// linkFlows sets the flow's id as correlation id of calls and device events, in traces without correlation ids.
func (m *merger) linkFlows() {
	starts, ends := map[arrow]int64{}, map[arrow]int64{}
	for _, f := range m.flows {
		a := arrow{f.pid, f.tid, f.ts}
		switch {
		case f.start && !m.seenAPI:
			starts[a] = f.id
		case !f.start && !m.seenGPU:
			ends[a] = f.id
		}
	}
	m.flows = nil
	if len(starts) > 0 {
		for h := range m.host.eachRow() {
			if h.Kind == model.API {
				k := m.laneKeys[h.Lane]
				h.Corr = starts[arrow{k.pid, k.tid, h.Start}]
			}
		}
	}
	if len(ends) > 0 {
		for g := range m.gpu.eachRow() {
			g.Corr = ends[arrow{int64(m.devices[g.Device]), g.Stream, g.Start}]
		}
	}
}

// assignProcesses finds the process that launched each device event, because the format stores the device instead. If
// only one process calls the runtime, it launched all events. In a merged file, a device belongs to the process whose
// calls match its events: equal correlation ids, and the call begins first. A device without a clear winner keeps -1,
// any process.
func (m *merger) assignProcesses() {
	t := m.t
	callers := map[int32]bool{}
	for i := range t.Host {
		if t.Host[i].Kind == model.API {
			callers[t.Lanes[t.Host[i].Lane].Process] = true
		}
	}
	if len(callers) == 0 {
		return
	}
	owner := make([]int32, len(t.Devices))
	if len(callers) == 1 {
		for p := range callers {
			for i := range owner {
				owner[i] = p
			}
		}
	} else {
		findOwners(t, owner)
	}
	for i := range t.GPU {
		t.GPU[i].Process = owner[t.GPU[i].Device]
	}
}

// sampledEvents limits the events per device from which findOwners finds its process.
const sampledEvents = 4096

// findOwners sets owner[d] to the process that launched the events of device d; -1 unclear.
func findOwners(t *model.Trace, owner []int32) {
	type call struct {
		process int32
		start   int64
	}
	calls := map[int64][]call{}
	taken := make([]int, len(owner))
	for i := range t.GPU {
		if g := &t.GPU[i]; g.Corr != 0 && taken[g.Device] < sampledEvents {
			taken[g.Device]++
			calls[g.Corr] = nil
		}
	}
	for i := range t.Host {
		h := &t.Host[i]
		if h.Kind != model.API || h.Corr == 0 {
			continue
		}
		if v, ok := calls[h.Corr]; ok {
			calls[h.Corr] = append(v, call{t.Lanes[h.Lane].Process, h.Start})
		}
	}
	votes := make([]map[int32]int, len(owner))
	clear(taken)
	for i := range t.GPU {
		g := &t.GPU[i]
		if g.Corr == 0 || taken[g.Device] >= sampledEvents {
			continue
		}
		taken[g.Device]++
		if votes[g.Device] == nil {
			votes[g.Device] = map[int32]int{}
		}
		voted := map[int32]bool{}
		for _, c := range calls[g.Corr] {
			if c.start <= g.Start && !voted[c.process] {
				voted[c.process] = true
				votes[g.Device][c.process]++
			}
		}
	}
	electOwners(votes, owner)
}

// electOwners sets owner[d] to the process with most votes for device d. A call is a vote of its process if it has
// the correlation id of one of the device's operations and begins before that operation. Ranks of one program use the
// same ids, so that several processes may have nearly as many votes. Then processes that already own another device
// are excluded. A device without a clear winner gets -1.
func electOwners(votes []map[int32]int, owner []int32) {
	taken := map[int32]bool{}
	for d := range owner {
		owner[d] = findWinner(votes[d], nil)
		taken[owner[d]] = true
	}
	for again := true; again; {
		again = false
		for d := range owner {
			if owner[d] != -1 {
				continue
			}
			if owner[d] = findWinner(votes[d], taken); owner[d] != -1 {
				taken[owner[d]] = true
				again = true
			}
		}
	}
}

// findWinner returns the process with the most votes among those not taken. It returns -1 if another free process has
// nearly as many votes, or a taken one clearly more.
func findWinner(votes map[int32]int, taken map[int32]bool) int32 {
	best, first, second, most := int32(-1), 0, 0, 0
	for p, n := range votes {
		most = max(most, n)
		switch {
		case taken[p]:
		case n > first:
			best, first, second = p, n, first
		case n > second:
			second = n
		}
	}
	if second*10 > first*9 || first*10 < most*9 {
		return -1
	}
	return best
}
