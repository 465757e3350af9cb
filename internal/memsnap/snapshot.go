// Package memsnap reads memory snapshots of PyTorch's allocator, replays them to the
// live set at every moment and says which lines hold the memory. Nothing of the file
// is executed: see Read for the pickles that it takes.
package memsnap

// Action is what one event of a snapshot did.
type Action uint8

// The actions. Unknown ones of newer versions change nothing.
const (
	Unknown Action = iota
	Alloc
	FreeRequested
	FreeCompleted
	SegmentAlloc
	SegmentFree
	SegmentMap
	SegmentUnmap
	Seen // "snapshot": its size is the active bytes of that moment
	OOM
	Annotate
)

// actions are the actions by their names in the file.
func actions() map[string]Action {
	return map[string]Action{
		"alloc": Alloc, "free_requested": FreeRequested, "free_completed": FreeCompleted,
		"segment_alloc": SegmentAlloc, "segment_free": SegmentFree, "segment_map": SegmentMap, "segment_unmap": SegmentUnmap,
		"snapshot": Seen, "oom": OOM, "annotate": Annotate,
	}
}

// never is the event of what did not happen while the recording ran.
const never = ^uint32(0)

// allocation is memory that was taken, or a segment that an event names. Events are
// counted within their trace.
type allocation struct {
	addr, size uint64 // bytes that were asked for
	from       uint32 // index into Snapshot.origins
	born       uint32 // event; never: before the recording
	asked      uint32 // event of its free; never: it lives on
	done       uint32 // event from which on the memory can serve others
}

// origin is what allocations of one line of the program mostly have in common.
type origin struct {
	stack   uint32
	freedBy uint32 // the stack that freed it, 0 unknown
	place   uint32 // stream and pool
}

// Frame is a line of a stack.
type Frame struct {
	Name, File string
	Line       int
	Original   string // of generated code: the line of the program that it was made of
}

// frame is a Frame by the ids of its strings.
type frame struct{ name, file, line, original uint32 }

// place is a stream and a pool.
type place struct {
	stream uint64
	pool   [2]uint64
}

// Segment is memory that the allocator holds from the driver when the snapshot is taken.
type Segment struct {
	Device         int
	Address, Total uint64 // Total in bytes
	Stream         uint64
	Pool           [2]uint64
	Expandable     bool
	place          uint32
	first, last    int // its blocks
}

// State is that of a block.
type State uint8

// States of blocks.
const (
	Inactive State = iota
	Active
	Pending // freed, and still used by work in flight
)

// Block is a part of a segment. Requested belongs to its last use where it is Inactive.
type Block struct {
	Address, Size, Requested uint64
	State                    State
	stack, from              uint32 // from is its origin
}

// Note is a mark that the program or PyTorch set, such as Optimizer.step#AdamW.step.
type Note struct {
	Name   string
	Start  bool
	Device int
	Micros int64
}

// Settings are those of the allocator, as the file has them.
type Settings struct {
	Known      bool    // the file has them
	Text       string  // as PYTORCH_CUDA_ALLOC_CONF has them
	MaxSplit   int64   // bytes, -1 none
	Collection float64 // garbage_collection_threshold, 0 none
	Expandable bool
	Roundup    [16]uint64 // divisions of the powers of two from 1 MiB on
}

// Snapshot is one file.
type Snapshot struct {
	Path     string
	Opens    string // as a command on this machine can open it
	Protocol int    // of the pickle
	Bytes    int64  // of its text
	// Truncated: the file ends early, and there is the state at the end alone.
	Truncated bool
	Segments  []Segment
	Settings  Settings
	Notes     []Note

	traces  []tracePart // by device
	blocks  []Block
	events  column[uint32] // action << 28 | allocation of its trace
	deltas  column[uint32] // microseconds since the event before; escape: see times
	times   map[int]int64  // by event: of deltas that do not fit
	allocs  column[allocation]
	origins []origin
	places  []place
	texts   []string
	frames  []frame
	stackAt []uint32 // stack i is stackIDs[stackAt[i]:stackAt[i+1]]
	stackID []uint32
	hasTime bool
	// numbered: PyTorch is 2.14 or newer, so that among free blocks of equal size the one of
	// the oldest segment serves (2.13 does too, and its files do not tell).
	numbered bool
	pooled   bool // events have their pool: PyTorch is 2.12 or newer
	hosts    int  // events of pinned memory, which are not replayed
}

// escape is the time difference of an event whose time stands in Snapshot.times.
const escape = ^uint32(0)

// Of an event's word: its action above, its allocation below.
const (
	actionShift = 28
	allocMask   = 1<<actionShift - 1
)

// tracePart is the part of the columns that one device has.
type tracePart struct{ first, last, allocs, lastAlloc int }

// origin is that of an allocation.
func (s *Snapshot) origin(a *allocation) *origin { return &s.origins[a.from] }

// Devices is how many devices the file has traces or segments of.
func (s *Snapshot) Devices() int {
	n := len(s.traces)
	for i := range s.Segments {
		n = max(n, s.Segments[i].Device+1)
	}
	return n
}

// Events is how many events the file has of all devices.
func (s *Snapshot) Events() int { return s.events.n }

// Blocks are the parts of a segment in the order of their addresses.
func (s *Snapshot) Blocks(g *Segment) []Block { return s.blocks[g.first:g.last] }

// Stack is a stack by its number, the innermost frame first.
func (s *Snapshot) Stack(id uint32) []Frame {
	if int(id)+1 >= len(s.stackAt) {
		return nil
	}
	var out []Frame
	for _, f := range s.stackID[s.stackAt[id]:s.stackAt[id+1]] {
		k := s.frames[f]
		out = append(out, Frame{Name: s.texts[k.name], File: s.texts[k.file], Line: int(k.line), Original: s.texts[k.original]})
	}
	return out
}

// part is the trace of a device, an empty one where the file has none.
func (s *Snapshot) part(device int) tracePart {
	if device < len(s.traces) {
		return s.traces[device]
	}
	return tracePart{}
}

// column is a list of many values: it grows by chunks and is never copied.
type column[T any] struct {
	chunks [][]T
	n      int
}

const chunk = 1 << 14

// push adds a value; grown says that a chunk of memory was taken for it.
func (c *column[T]) push(x T) (grown bool) {
	if c.n%chunk == 0 {
		c.chunks = append(c.chunks, make([]T, 0, chunk))
		grown = true
	}
	last := len(c.chunks) - 1
	c.chunks[last] = append(c.chunks[last], x)
	c.n++
	return grown
}

func (c *column[T]) at(i int) *T { return &c.chunks[uint(i)/chunk][uint(i)%chunk] }
