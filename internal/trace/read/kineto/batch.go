package kineto

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// batch is what one stretch of text held. Names, lanes and stacks are numbers
// of the parser that made it; the parser's new texts come along, so that
// whoever merges never reads a parser at work.
type batch struct {
	parser int
	names  []string // new ones, in the order of their numbers
	stacks []string
	lanes  []laneKey

	host        []model.Host
	gpu         []model.GPU // Launch holds the device's id until merged
	memory      []model.MemoryEvent
	flows       []flow
	waits       []model.StreamWait
	collectives []model.Collective
	pairs       []half
	meta        []threadName

	events  int // elements of the array that are objects
	phased  int // those that have a phase, as every event has
	unknown map[string]int
	bad     [badKinds]int
	first   int64 // place in the text of the first bad event, -1 none
	least   int64 // the earliest time of an event, ns; math.MaxInt64 none
	strange int   // elements that are no objects
	at      int64 // place in the text of the window
	pos     int   // where reading stopped, in the window
	st      status
	ended   bool // the array's closing bracket was read; pos is after it
}

func (t *batch) reset(at int64) {
	*t = batch{
		parser: t.parser, names: t.names[:0], stacks: t.stacks[:0], lanes: t.lanes[:0],
		host: t.host[:0], gpu: t.gpu[:0], memory: t.memory[:0], flows: t.flows[:0], waits: t.waits[:0], collectives: t.collectives[:0], pairs: t.pairs[:0], meta: t.meta[:0],
		first: -1, at: at, least: math.MaxInt64,
	}
}

// forget drops the events and keeps the new texts, whose numbers the parser
// goes on using.
func (t *batch) forget() {
	n, s, l := t.names, t.stacks, t.lanes
	t.names, t.stacks, t.lanes = nil, nil, nil
	t.reset(t.at)
	t.names, t.stacks, t.lanes = n, s, l
}

// Ways in which an event can be bad.
const (
	unreadable = iota
	noPhase    // ph missing
	noTime     // ts missing, no number or out of range
	noDuration // dur missing or no number: taken as 0
	negative   // dur below 0: taken as 0
	unpaired   // a begin without an end or the other way round
	badKinds   //
)

// laneKey is a host thread as the file names it; the texts are empty for numbers.
type laneKey struct {
	pid, tid         int64
	pidText, tidText string
}

// flow is an arrow from a launch ('s') to what it launched ('f').
type flow struct {
	id, ts   int64
	pid, tid int64
	start    bool
}

// half is a begin or end event; they are paired when merged, as the two may
// be far apart.
type half struct {
	end  bool
	what category // host, device, or ignored
	lane uint32
	ts   int64
	host model.Host
	gpu  model.GPU
}

type threadName struct {
	lane laneKey
	name string
}
