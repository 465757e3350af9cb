package fleet

import (
	"errors"
	"hash/fnv"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// op is a moment of a rank: a collective is asked for, the rank waits for the end of one,
// or a step ends. Before it the rank has time of its own, and is held up by what is none
// of the collectives. ns.
type op struct {
	own, held int64
	call      int32 // index into line.calls; of the end of a step its index into line.steps
	kind      opKind
}

type opKind uint8

const (
	asks opKind = iota
	waits
	ends
)

// rankCall is a collective as one rank saw it.
type rankCall struct {
	kind, group int32 // index into line.names
	seq, bytes  int64
	step        int32
	after       int32 // the call before on its stream plus one
	dur         int64
	paused      int64 // how long the rank waited for its end
	all         int32 // index into job of calls; -1 where it is none of those that are replayed
	column      int32 // index into the columns that the rank left
}

// line is the part of one rank in the communication of a job.
type line struct {
	rank   int
	node   string
	job    string // "" not known
	device string
	role   string
	onHost bool
	names  []string
	steps  []int64 // numbers
	calls  []rankCall
	ops    []op
	parts  analyze.Parts
	// In all steps, ns: the rank works, does nothing, and waits for others.
	work, idle, waited int64
	recorded           []int64 // when each step ended, as it was recorded
}

// newLine takes over what a rank left. The error says that its columns do not fit
// together.
func newLine(c *analyze.Collectives, rank int, node string) (*line, error) {
	n, m := len(c.Kind), len(c.Moments)
	for _, col := range []model.Column{c.Group, c.Seq, c.Bytes, c.Step, c.Start, c.Dur, c.After} {
		if len(col) != n {
			return nil, errors.New("its columns of collectives differ in length")
		}
	}
	for _, col := range []model.Column{c.Work, c.Idle, c.Held} {
		if len(col) != m {
			return nil, errors.New("its columns of moments differ in length")
		}
	}
	l := &line{rank: rank, node: node, device: c.Device, role: c.Role, onHost: c.OnHost, names: c.Names, steps: c.Steps, parts: c.Parts, calls: make([]rankCall, n), ops: make([]op, m)}
	for i := range n {
		call := rankCall{kind: int32(c.Kind[i]), group: int32(c.Group[i]), seq: c.Seq[i], bytes: c.Bytes[i], step: int32(c.Step[i]), after: int32(c.After[i]), dur: c.Dur[i], all: -1, column: int32(i)}
		if !within(c.Kind[i], len(c.Names)) || !within(c.Group[i], len(c.Names)) || !within(c.Step[i], len(c.Steps)) || c.After[i] < 0 || c.After[i] > int64(i) || c.Dur[i] < 0 {
			return nil, errors.New("a collective of it names what is not there")
		}
		l.calls[i] = call
	}
	for i := range m {
		o, err := momentOf(c, i)
		if err != nil {
			return nil, err
		}
		l.work, l.idle = l.work+c.Work[i], l.idle+c.Idle[i]
		l.ops[i] = o
	}
	l.record(c.Start)
	return l, nil
}

// momentOf is the i-th moment of a rank.
func momentOf(c *analyze.Collectives, i int) (op, error) {
	o := op{own: c.Work[i] + c.Idle[i], held: c.Held[i]}
	if c.Work[i] < 0 || c.Idle[i] < 0 || o.held < 0 {
		return o, errors.New("a time of it is negative")
	}
	switch v := c.Moments[i]; {
	case v < 0 && within(-1-v, len(c.Steps)):
		o.kind, o.call = ends, int32(-1-v)
	case within(v/2, len(c.Kind)) && v >= 0:
		o.kind, o.call = opKind(v%2), int32(v/2)
	default:
		return o, errors.New("a moment of it names what is not there")
	}
	return o, nil
}

func within(v int64, n int) bool { return v >= 0 && v < int64(n) }

// record works out when each step ended in the recording, and how long the rank waited,
// by when its collectives began.
func (l *line) record(starts []int64) {
	t := int64(0)
	l.recorded = make([]int64, len(l.steps))
	for _, o := range l.ops {
		t += o.own + o.held
		switch o.kind {
		case waits:
			c := &l.calls[o.call]
			if end := starts[o.call] + c.dur; end > t {
				c.paused = end - t
				l.waited += c.paused
				t = end
			}
		case ends:
			l.recorded[o.call] = t
		}
	}
}

func (l *line) kindOf(c *rankCall) string  { return l.names[c.kind] }
func (l *line) groupOf(c *rankCall) string { return l.names[c.group] }

// signature is the same for ranks that ask for the same collectives in the same order,
// in groups that may be different ones.
func (l *line) signature() uint64 {
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
