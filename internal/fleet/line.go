package fleet

import (
	"errors"
	"hash/fnv"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// op is an event of a rank: it enqueues a collective, waits for the end of one, or ends a step. own is the rank's own
// time before the event, held the time for which something other than a collective blocked it; ns.
type op struct {
	own, held int64
	call      int32 // index into timeline.calls, or for opStepEnd into timeline.steps
	kind      opKind
}

type opKind uint8

const (
	opEnqueue opKind = iota
	opWait
	opStepEnd
)

// rankCall is one rank's call of a collective.
type rankCall struct {
	kind, group int32 // index into timeline.names
	seq, bytes  int64
	step        int32
	after       int32 // index of the previous call on its stream plus one; 0 for none
	dur         int64
	paused      int64 // time that the rank waited for the collective's end, ns
	all         int32 // index into matchedJob.all; -1 if it is not replayed
	column      int32 // index into the columns of the rank's recording
}

// timeline is the communication of one rank over the steps of a job.
type timeline struct {
	rank   int
	node   string
	job    string // "" if unknown
	device string
	role   string
	onHost bool
	names  []string
	steps  []int64 // step numbers
	calls  []rankCall
	ops    []op
	parts  analyze.Parts
	// work, idle and waited are the rank's computing, idle and waiting time over all steps, ns.
	work, idle, waited int64
	recorded           []int64 // end of each step in the recording, ns
}

// newTimeline converts a rank's recording; an error if its columns differ in length or name missing entries.
func newTimeline(c *analyze.Collectives, rank int, node string) (*timeline, error) {
	n, m := len(c.Kind), len(c.Moments)
	for _, col := range []model.Column{c.Group, c.Seq, c.Bytes, c.Step, c.Start, c.Dur, c.After} {
		if len(col) != n {
			return nil, errors.New("its columns of collectives differ in length")
		}
	}
	for _, col := range []model.Column{c.Work, c.Idle, c.OtherCommunication} {
		if len(col) != m {
			return nil, errors.New("its columns of moments differ in length")
		}
	}
	l := &timeline{rank: rank, node: node, device: c.Device, role: c.Role, onHost: c.OnHost, names: c.Names, steps: c.Steps, parts: c.Parts, calls: make([]rankCall, n), ops: make([]op, m)}
	for i := range n {
		call := rankCall{kind: int32(c.Kind[i]), group: int32(c.Group[i]), seq: c.Seq[i], bytes: c.Bytes[i], step: int32(c.Step[i]), after: int32(c.After[i]), dur: c.Dur[i], all: -1, column: int32(i)}
		if !isIndex(c.Kind[i], len(c.Names)) || !isIndex(c.Group[i], len(c.Names)) || !isIndex(c.Step[i], len(c.Steps)) || c.After[i] < 0 || c.After[i] > int64(i) || c.Dur[i] < 0 {
			return nil, errors.New("one of its collectives names a missing entry")
		}
		l.calls[i] = call
	}
	for i := range m {
		o, err := parseMoment(c, i)
		if err != nil {
			return nil, err
		}
		l.work, l.idle = l.work+c.Work[i], l.idle+c.Idle[i]
		l.ops[i] = o
	}
	l.computeStepEnds(c.Start)
	return l, nil
}

func parseMoment(c *analyze.Collectives, i int) (op, error) {
	o := op{own: c.Work[i] + c.Idle[i], held: c.OtherCommunication[i]}
	if c.Work[i] < 0 || c.Idle[i] < 0 || o.held < 0 {
		return o, errors.New("a time of it is negative")
	}
	switch v := c.Moments[i]; {
	case v < 0 && isIndex(-1-v, len(c.Steps)):
		o.kind, o.call = opStepEnd, int32(-1-v)
	case isIndex(v/2, len(c.Kind)) && v >= 0:
		o.kind, o.call = opKind(v%2), int32(v/2)
	default:
		return o, errors.New("one of its moments names a missing entry")
	}
	return o, nil
}

func isIndex(v int64, n int) bool { return v >= 0 && v < int64(n) }

// computeStepEnds computes the recorded step ends and the rank's waits, given the starts of its collectives.
func (l *timeline) computeStepEnds(starts []int64) {
	t := int64(0)
	l.recorded = make([]int64, len(l.steps))
	for _, o := range l.ops {
		t += o.own + o.held
		switch o.kind {
		case opWait:
			c := &l.calls[o.call]
			if end := starts[o.call] + c.dur; end > t {
				c.paused = end - t
				l.waited += c.paused
				t = end
			}
		case opStepEnd:
			l.recorded[o.call] = t
		}
	}
}

func (l *timeline) kindOf(c *rankCall) string  { return l.names[c.kind] }
func (l *timeline) groupOf(c *rankCall) string { return l.names[c.group] }

// callSignature hashes the kinds, sizes and steps of a rank's collectives in order; it is equal for siblings. Groups
// are left out, because siblings may be in different ones.
func (l *timeline) callSignature() uint64 {
	h := fnv.New64a()
	var buf [8]byte
	put := func(v int64) {
		for i := range buf {
			buf[i] = byte(v >> (8 * i))
		}
		_, _ = h.Write(buf[:])
	}
	for i := range l.calls {
		c := &l.calls[i]
		_, _ = h.Write([]byte(l.kindOf(c)))
		put(c.bytes)
		put(l.steps[c.step])
	}
	return h.Sum64()
}
