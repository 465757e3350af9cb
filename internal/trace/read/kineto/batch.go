package kineto

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// batch holds the events of one block of text. Names, lanes and stacks have the numbers that the block's parser gave
// them. The batch also carries the texts that the parser numbered since the last batch, so that the merger never
// reads a running parser.
type batch struct {
	parser int
	names  []string // new names, in the order of their numbers
	stacks []string
	lanes  []laneKey

	host        []model.Host
	gpu         []model.GPU // GPU.Launch holds the device's id until merged
	memory      []model.MemoryEvent
	flows       []flow
	waits       []model.StreamWait
	collectives []model.Collective
	halves      []halfEvent
	meta        []threadName

	events     int // objects in the array
	phased     int // objects with a phase, which every event has
	unknown    map[string]int
	bad        [badKinds]int
	firstBad   int64 // index in the text of the first bad event, -1 none
	earliest   int64 // earliest time of an event, ns; math.MaxInt64 none
	notObjects int   // elements of the event array that are not objects
	at         int64 // index of the window in the text
	pos        int   // index in the window where reading stopped
	ended      bool  // the array's closing bracket was read; pos is after it
}

func (t *batch) reset(at int64) {
	*t = batch{
		parser: t.parser, names: t.names[:0], stacks: t.stacks[:0], lanes: t.lanes[:0],
		host: t.host[:0], gpu: t.gpu[:0], memory: t.memory[:0], flows: t.flows[:0], waits: t.waits[:0], collectives: t.collectives[:0], halves: t.halves[:0], meta: t.meta[:0],
		firstBad: -1, at: at, earliest: math.MaxInt64,
	}
}

// dropEvents drops the events but keeps the new texts, whose numbers the parser continues to use.
func (t *batch) dropEvents() {
	n, s, l := t.names, t.stacks, t.lanes
	t.names, t.stacks, t.lanes = nil, nil, nil
	t.reset(t.at)
	t.names, t.stacks, t.lanes = n, s, l
}

// Kinds of bad events.
const (
	unreadable = iota
	noPhase    // ph is missing
	noTime     // ts is missing, not a number, or out of range
	noDuration // dur is missing or not a number: taken as 0
	negative   // dur is negative: taken as 0
	unpaired   // a begin without an end, or an end without a begin
	badKinds   //
)

// laneKey identifies a host thread by pid and tid in the file; the texts are empty for numbers.
type laneKey struct {
	pid, tid         int64
	pidText, tidText string
}

// flow is an arrow from a launch ('s') to the launched operation ('f').
type flow struct {
	id, ts   int64
	pid, tid int64
	start    bool
}

// halfEvent is a begin or an end event. The merger pairs them, because they may be in different batches.
type halfEvent struct {
	end      bool
	category category // host, device, or ignored
	lane     uint32
	ts       int64
	host     model.Host
	gpu      model.GPU
}

type threadName struct {
	lane laneKey
	name string
}
