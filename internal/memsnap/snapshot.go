// Package memsnap reads memory snapshots of PyTorch's allocator, replays them to the live set at every moment, and
// finds the lines that hold the memory. It executes nothing of the file: see Read for the accepted pickles.
package memsnap

// Action is the kind of one event of a snapshot.
type Action uint8

// Unknown actions of newer versions change nothing.
const (
	Unknown Action = iota
	Alloc
	FreeRequested
	FreeCompleted
	SegmentAlloc
	SegmentFree
	SegmentMap
	SegmentUnmap
	Seen // "snapshot": its size is the active bytes at that moment
	OOM
	Annotate
)

// actionNames maps the names in the file to actions.
func actionNames() map[string]Action {
	return map[string]Action{
		"alloc": Alloc, "free_requested": FreeRequested, "free_completed": FreeCompleted,
		"segment_alloc": SegmentAlloc, "segment_free": SegmentFree, "segment_map": SegmentMap, "segment_unmap": SegmentUnmap,
		"snapshot": Seen, "oom": OOM, "annotate": Annotate,
	}
}

// never is the event number of a change outside of the recording.
const never = ^uint32(0)

// allocation is a block that was allocated, or a segment of an event. Event numbers count within their trace.
type allocation struct {
	addr, size uint64 // requested bytes
	from       uint32 // index into Snapshot.origins
	born       uint32 // event; never: before the recording
	asked      uint32 // event of its free; never: not freed
	done       uint32 // event after which the memory can be reused
}

// origin has the properties that allocations of one line of the program mostly share.
type origin struct {
	stack   uint32
	freedBy uint32 // the stack that freed it, 0 if unknown
	place   uint32 // stream and pool
}

// Frame is a line of a stack.
type Frame struct {
	Name, File string
	Line       int
	Original   string // for generated code: the line of the program that it was generated from
}

// frame is a Frame by the ids of its strings.
type frame struct{ name, file, line, original uint32 }

// place is a stream and a pool.
type place struct {
	stream uint64
	pool   [2]uint64
}

// Segment is memory that the allocator held from the driver when the snapshot was taken.
type Segment struct {
	Device         int
	Address, Total uint64 // Total in bytes
	Stream         uint64
	Pool           [2]uint64
	Expandable     bool
	place          uint32
	first, last    int // range of its blocks
}

// State is the state of a block.
type State uint8

// States of blocks.
const (
	Inactive State = iota
	Active
	Pending // freed, and still used by work in flight
)

// Block is a part of a segment. For an Inactive block, Requested is the size of its last use.
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

// Settings are the allocator's settings in the file.
type Settings struct {
	Known      bool    // the file contains them
	Text       string  // in the syntax of PYTORCH_CUDA_ALLOC_CONF
	MaxSplit   int64   // bytes, -1 for none
	Collection float64 // garbage_collection_threshold, 0 for none
	Expandable bool
	Roundup    [16]uint64 // divisions of the powers of two from 1 MiB
}

// Snapshot is one file.
type Snapshot struct {
	Path     string
	Opens    string // absolute path that opens it on this machine
	Protocol int    // protocol of the pickle
	Bytes    int64  // length of its text
	// Truncated marks a file that ends early and has only the state at the end.
	Truncated bool
	Segments  []Segment
	Settings  Settings
	Notes     []Note

	traces  []tracePart // by device
	blocks  []Block
	events  column[uint32] // action << 28 | allocation of its trace
	deltas  column[uint32] // microseconds since the previous event; escape: see times
	times   map[int]int64  // by event: times whose delta does not fit
	allocs  column[allocation]
	origins []origin
	places  []place
	texts   []string
	frames  []frame
	stackAt []uint32 // stack i is stackID[stackAt[i]:stackAt[i+1]]
	stackID []uint32
	hasTime bool
	// numbered marks PyTorch 2.14 or newer, which chooses the block of the oldest segment among free blocks of equal
	// size. 2.13 does so too, but its files lack the mark.
	numbered bool
	pooled   bool // events have their pool: PyTorch 2.12 or newer
	hosts    int  // events of pinned memory, which are not replayed
}

// escape marks an event whose time is in Snapshot.times.
const escape = ^uint32(0)

// Layout of an event's word: the action in the high bits, the allocation in the low ones.
const (
	actionShift = 28
	allocMask   = 1<<actionShift - 1
)

// tracePart is the part of the columns that belongs to one device.
type tracePart struct{ first, last, allocs, lastAlloc int }

func (s *Snapshot) originOf(a *allocation) *origin { return &s.origins[a.from] }

// Devices returns the number of devices with traces or segments in the file.
func (s *Snapshot) Devices() int {
	n := len(s.traces)
	for i := range s.Segments {
		n = max(n, s.Segments[i].Device+1)
	}
	return n
}

// Events returns the number of events of all devices.
func (s *Snapshot) Events() int { return s.events.n }

// Blocks returns the blocks of a segment in the order of their addresses.
func (s *Snapshot) Blocks(g *Segment) []Block { return s.blocks[g.first:g.last] }

// Stack returns a stack by its number, the innermost frame first.
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

// tracePartOf returns the trace of a device, empty if the file has none.
func (s *Snapshot) tracePartOf(device int) tracePart {
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

// push adds a value; grown reports that it allocated a chunk.
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

func (c *column[T]) get(i int) *T { return &c.chunks[uint(i)/chunk][uint(i)%chunk] }
