package memtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// Recorder simulates PyTorch's caching allocator on one device and records its events for a snapshot.
type Recorder struct {
	Version [2]int // PyTorch's major and minor version, which decides the members in the file
	Events  []*Dict
	Notes   *List
	Limit   int64 // device memory in bytes; 0: unlimited
	Config  string
	Roundup uint64 // roundup_power2_divisions of every size; set before the first Alloc
	Pools   bool   // the snapshot lists each segment with a private pool ID of its own
	// Set has the allocator's other settings; set it before the first Alloc. With Lowest a segment gets the lowest free
	// address, as from a driver; otherwise an address above all earlier segments.
	Set    pool.Settings
	Lowest bool

	pool   *pool.Pool
	driver segments
	stack  *List  // stack of the current request
	micros uint64 // time of the last event, us
	in     int    // private pool of the current request, 0 none
	stream int
	gone   []int                 // private pools whose CUDA graphs were deleted
	told   int                   // number of pools in gone that Released returned in this Trim
	blocks map[*pool.Block]*List // stacks of the live blocks
	placed map[*pool.Block]place
}

// place is the stream and private pool of a block's or segment's request.
type place struct{ stream, in int }

// segments is a pool.Driver that only assigns addresses; there is no memory behind them.
type segments struct {
	r    *Recorder
	base map[int]uint64
	size map[int]int64
	of   map[int]place
	top  uint64
	used int64
}

// base is the first address, similar to addresses on a GPU.
const base = 0x7f0000000000

// New begins a recording of the given PyTorch version, such as 2, 15.
func New(major, minor int) *Recorder {
	r := &Recorder{Version: [2]int{major, minor}, Notes: &List{}, micros: 1_700_000_000_000_000, blocks: map[*pool.Block]*List{}, placed: map[*pool.Block]place{}}
	r.driver = segments{r: r, base: map[int]uint64{}, size: map[int]int64{}, of: map[int]place{}, top: base}
	r.pool = pool.New(pool.Settings{}, &r.driver)
	return r
}

// Map implements pool.Driver.
func (d *segments) Map(n int, bytes int64) error {
	if d.r.Limit > 0 && d.used+bytes > d.r.Limit {
		return errors.New("out of memory")
	}
	d.base[n], d.size[n], d.of[n] = d.place(uint64(bytes+granule-1)/granule*granule), bytes, place{d.r.stream, d.r.in}
	d.used += bytes
	d.r.event("segment_alloc", d.base[n], bytes, d.r.stack)
	return nil
}

// granule is the unit in which a driver allocates memory, bytes.
const granule = 2 << 20

// place returns the address of a new segment.
func (d *segments) place(bytes uint64) uint64 {
	at := uint64(base)
	if !d.r.Lowest {
		d.top += bytes
		return d.top - bytes
	}
	for _, n := range slices.SortedFunc(maps.Keys(d.base), func(a, b int) int { return cmp.Compare(d.base[a], d.base[b]) }) {
		if at+bytes <= d.base[n] {
			break
		}
		at = d.base[n] + uint64(d.size[n]+granule-1)/granule*granule
	}
	return at
}

// Base implements pool.Addresser.
func (d *segments) Base(n int) uint64 { return d.base[n] }

// Released implements pool.Releaser.
func (d *segments) Released() (in int, ok bool) {
	if d.r.told < len(d.r.gone) {
		d.r.told++
		return d.r.gone[d.r.told-1], true
	}
	d.r.told = 0
	return 0, false
}

// Unmap implements pool.Driver.
func (d *segments) Unmap(n int) error {
	d.r.stream, d.r.in = d.of[n].stream, d.of[n].in
	d.r.event("segment_free", d.base[n], d.size[n], d.r.stack)
	d.used -= d.size[n]
	delete(d.base, n)
	delete(d.size, n)
	delete(d.of, n)
	return nil
}

// Frame returns a stack frame in the format of a snapshot.
func Frame(name, file string, line int) *Dict {
	return (&Dict{}).Set("name", name).Set("filename", file).Set("line", line)
}

func (r *Recorder) since(minor int) bool { return r.Version[1] >= minor }

func (r *Recorder) event(action string, addr uint64, bytes int64, stack *List) {
	r.micros += 10
	e := (&Dict{}).Set("action", action)
	if action == "oom" {
		e.Set("device_free", int(r.Limit-r.driver.used))
	} else {
		e.Set("addr", addr)
	}
	e.Set("size", int(bytes)).Set("stream", r.stream)
	if r.since(2) {
		e.Set("time_us", r.micros)
	}
	if r.since(5) {
		e.Set("compile_context", "N/A")
	}
	if r.since(10) {
		e.Set("user_metadata", "")
	}
	if r.since(12) {
		e.Set("pool_id", Tuple{0, r.in})
	}
	if stack != nil {
		e.Set("frames", stack)
	}
	r.Events = append(r.Events, e)
}

// Alloc allocates a block on stream 0; stack has the innermost frame first. It returns nil if memory is exhausted.
func (r *Recorder) Alloc(bytes int64, stack *List) *pool.Block { return r.AllocIn(bytes, 0, 0, stack) }

// AllocIn is Alloc for a stream and a private pool (in), such as the pool of a CUDA graph.
func (r *Recorder) AllocIn(bytes int64, stream, in int, stack *List) *pool.Block {
	r.stack, r.stream, r.in = stack, stream, in
	if len(r.Events) == 0 {
		if r.Roundup > 0 {
			for i := range r.Set.Roundup {
				r.Set.Roundup[i] = r.Roundup
			}
		}
		r.pool = pool.New(r.Set, &r.driver)
	}
	b, err := r.pool.Take(bytes, stream, in)
	r.stream, r.in = stream, in // Unmap of other segments may have changed them
	if err != nil {
		r.event("oom", 0, (bytes+511)/512*512, stack)
		return nil
	}
	r.event("alloc", r.address(b), bytes, stack)
	r.blocks[b], r.placed[b] = stack, place{stream, in}
	return b
}

// Gone marks private pool in as the pool of a deleted CUDA graph. Empty then also frees its memory.
func (r *Recorder) Gone(in int) { r.gone = append(r.gone, in) }

func (r *Recorder) address(b *pool.Block) uint64 {
	return r.driver.base[b.Segment] + uint64(b.Offset)
}

// Free frees a block; stack is the stack of the call that frees.
func (r *Recorder) Free(b *pool.Block, stack *List) {
	r.Ask(b, stack)
	r.Complete(b, stack)
}

// Ask records free_requested: the program has freed the block, but work on another stream uses it until Complete.
func (r *Recorder) Ask(b *pool.Block, stack *List) {
	r.stream, r.in = r.placed[b].stream, r.placed[b].in
	r.event("free_requested", r.address(b), b.Requested, stack)
}

// Complete records free_completed and returns the block to the pool.
func (r *Recorder) Complete(b *pool.Block, stack *List) {
	r.stream, r.in = r.placed[b].stream, r.placed[b].in
	r.event("free_completed", r.address(b), b.Requested, stack)
	delete(r.blocks, b)
	delete(r.placed, b)
	r.pool.Give(b)
}

// Empty simulates torch.cuda.empty_cache().
func (r *Recorder) Empty(stack *List) error {
	r.stack = stack
	if err := r.pool.Trim(); err != nil {
		return fmt.Errorf("emptying the cache: %w", err)
	}
	return nil
}

// Step runs do between the start and end marks of an Optimizer.step.
func (r *Recorder) Step(do func()) {
	mark := func(stage string) {
		r.micros += 10
		r.Notes.Add((&Dict{}).Set("stage", stage).Set("name", "Optimizer.step#AdamW.step").Set("device", 0).Set("time_us", r.micros))
	}
	mark("START")
	do()
	mark("END")
}

// Stats are the allocator's own counters.
func (r *Recorder) Stats() pool.Stats { return r.pool.Stats() }

// Forget drops all but the last n events, as a ring buffer of n events does.
func (r *Recorder) Forget(n int) { r.Events = r.Events[len(r.Events)-n:] }

// segment returns the present state of segment n in the format of a snapshot.
func (r *Recorder) segment(n int) *Dict {
	var held []*pool.Block
	for b := range r.blocks {
		if b.Segment == n {
			held = append(held, b)
		}
	}
	slices.SortFunc(held, func(a, b *pool.Block) int { return int(a.Offset - b.Offset) })
	blocks, at, active, asked := &List{}, int64(0), int64(0), int64(0)
	add := func(from, size, requested int64, state string, stack *List) {
		d := &Dict{}
		if r.since(1) {
			d.Set("address", r.driver.base[n]+uint64(from))
		}
		d.Set("size", int(size))
		if r.since(1) {
			d.Set("requested_size", int(requested))
		}
		d.Set("state", state)
		if stack == nil {
			stack = &List{}
		}
		if r.since(1) {
			d.Set("frames", stack)
		} else if state != "inactive" {
			d.Set("history", Of((&Dict{}).Set("addr", r.driver.base[n]+uint64(from)).Set("real_size", int(requested)).Set("frames", stack)))
		}
		blocks.Add(d)
	}
	for _, b := range held {
		if b.Offset > at {
			add(at, b.Offset-at, 0, "inactive", nil)
		}
		add(b.Offset, b.Size, b.Requested, "active_allocated", r.blocks[b])
		at = b.Offset + b.Size
		active, asked = active+b.Size, asked+b.Requested
	}
	size := r.driver.size[n]
	if at < size {
		add(at, size-at, 0, "inactive", nil)
	}
	kind := "large"
	if size == 2<<20 {
		kind = "small"
	}
	d := (&Dict{}).Set("device", 0).Set("address", r.driver.base[n]).Set("total_size", int(size)).Set("allocated_size", int(active)).Set("active_size", int(active))
	if r.since(1) {
		d.Set("requested_size", int(asked))
	}
	id := Tuple{0, r.driver.of[n].in}
	if r.Pools {
		id[1] = n + 1
	}
	return d.Set("stream", r.driver.of[n].stream).Set("segment_type", kind).Set("segment_pool_id", id).Set("is_expandable", false).Set("frames", &List{}).Set("blocks", blocks)
}

// Snapshot returns the recording as the root object of a snapshot file.
func (r *Recorder) Snapshot() *Dict {
	segs := &List{}
	for _, n := range slices.Sorted(maps.Keys(r.driver.base)) {
		segs.Add(r.segment(n))
	}
	events := &List{}
	for _, e := range r.Events {
		events.Add(e)
	}
	root := (&Dict{}).Set("segments", segs).Set("device_traces", Of(events))
	if r.since(3) {
		round := &Dict{}
		for i := range 16 {
			round.Set(fmt.Sprint(1<<i), int(r.Roundup))
		}
		root.Set("allocator_settings", (&Dict{}).Set("PYTORCH_CUDA_ALLOC_CONF", r.Config).Set("max_split_size", cmp.Or(int(r.Set.MaxSplit), -1)).Set("garbage_collection_threshold", r.Set.Collect).Set("expandable_segments", false).Set("roundup_power2_divisions", round))
	}
	if r.since(5) {
		root.Set("external_annotations", r.Notes)
	}
	if r.since(14) {
		root.Set("host_segments", &List{}).Set("host_traces", &List{})
	}
	return root
}
