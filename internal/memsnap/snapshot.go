// Package memsnap reads memory snapshots of PyTorch's allocator, replays them to the live memory at every moment, and
// finds the lines that hold the memory. It executes no code of the file; Read names the accepted pickles.
//
// A snapshot has, for each device, a trace: the list of the allocator's events, numbered from 0. A row is the entry of
// an allocation in the table of its trace; an event refers to a row. Segments are ranges of memory that the allocator
// took from the driver, blocks their parts. A pool, private or default, is the part of the allocator from which a
// request is served; the model is a simulation of the allocator (package pool) with the recorded requests.
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

// never is the event number of a change that the recording does not have.
const never = ^uint32(0)

// allocation is an allocated block, or the segment of an event. Events are numbered within a trace.
type allocation struct {
	addr, size uint64 // requested bytes
	from       uint32 // index into Snapshot.origins
	born       uint32 // event; never if before the recording
	asked      uint32 // event of the free; never if not freed
	done       uint32 // event after which the memory can be reused
}

// origin has what most allocations of one program line share.
type origin struct {
	stack   uint32
	freedBy uint32 // stack that freed the memory, 0 unknown
	place   uint32 // stream and pool
}

// Frame is a line of a stack.
type Frame struct {
	Name, File string
	Line       int
	Original   string // generated code: the program line that it came from
}

// frame is a Frame whose texts are replaced by their interned numbers.
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
	Pending // freed, but still used by running work
)

// Block is a part of a segment. In an Inactive block, Requested is the size of its last use.
type Block struct {
	Address, Size, Requested uint64
	State                    State
	stack, from              uint32 // from is its origin
}

// Note is a mark set by the program or PyTorch, such as Optimizer.step#AdamW.step.
type Note struct {
	Name   string
	Start  bool
	Device int
	Micros int64
}

// Settings are the allocator settings in the file.
type Settings struct {
	Known      bool    // the file contains them
	Text       string  // in the syntax of PYTORCH_CUDA_ALLOC_CONF
	MaxSplit   int64   // bytes, -1 none
	Collection float64 // garbage_collection_threshold, 0 none
	Expandable bool
	Roundup    [16]uint64 // divisions of powers of two from 1 MiB on
}

// Snapshot is one file.
type Snapshot struct {
	Path     string
	Opens    string // absolute path on this machine
	Protocol int    // of the pickle
	Bytes    int64  // of the pickle
	// Truncated reports that the file ends early and has only the state at the end.
	Truncated bool
	Segments  []Segment
	Settings  Settings
	Notes     []Note

	traces  []tracePart // by device
	blocks  []Block
	events  column[uint32] // action << 28 | allocation in its trace
	deltas  column[uint32] // us since the previous event; escape: see times
	times   map[int]int64  // by event, if the delta does not fit
	allocs  column[allocation]
	origins []origin
	places  []place
	texts   []string
	frames  []frame
	stackAt []uint32 // stack i is stackID[stackAt[i]:stackAt[i+1]]
	stackID []uint32
	hasTime bool
	// numbered reports a file of PyTorch 2.14 or newer. Since 2.13, the allocator takes the free block in the oldest
	// segment among those of equal size, but files of 2.13 have no mark.
	numbered bool
	pooled   bool // events have pools: PyTorch 2.12 or newer
	hosts    int  // events of pinned memory, not replayed
}

// escape marks an event whose time is in Snapshot.times.
const escape = ^uint32(0)

// Layout of an event word: action in the high bits, allocation in the low bits.
const (
	actionShift = 28
	allocMask   = 1<<actionShift - 1
)

// tracePart is one device's range of events, and its range of allocations.
type tracePart struct{ first, last, allocs, lastAlloc int }

func (s *Snapshot) originOf(a *allocation) *origin { return &s.origins[a.from] }

// Devices returns the number of devices with traces or segments.
func (s *Snapshot) Devices() int {
	n := len(s.traces)
	for i := range s.Segments {
		n = max(n, s.Segments[i].Device+1)
	}
	return n
}

// Events returns the number of events of all devices.
func (s *Snapshot) Events() int { return s.events.n }

// Blocks returns the blocks of a segment by address.
func (s *Snapshot) Blocks(g *Segment) []Block { return s.blocks[g.first:g.last] }

// Stack returns a stack by number, innermost frame first.
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

func (s *Snapshot) tracePartOf(device int) tracePart {
	if device < len(s.traces) {
		return s.traces[device]
	}
	return tracePart{}
}

// column is a long list that grows by chunks, so that growing copies nothing.
type column[T any] struct {
	chunks [][]T
	n      int
}

const chunk = 1 << 14

// push adds a value; grown means that it allocated a chunk.
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
