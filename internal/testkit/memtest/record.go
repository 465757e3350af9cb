package memtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// Recorder writes down what a caching allocator does, as PyTorch's does on one device.
type Recorder struct {
	Version [2]int // of PyTorch: which members the file has
	Events  []*Dict
	Notes   *List
	Limit   int64 // bytes that the driver has, 0 any
	Config  string
	Roundup uint64 // roundup_power2_divisions of every size; set before the first Alloc
	Pools   bool   // each segment is of a private pool of its own
	// Set are the allocator's other settings, set before the first Alloc. Lowest hands out
	// the lowest free address, as drivers do; otherwise each is above all before it.
	Set    pool.Settings
	Lowest bool

	pool   *pool.Pool
	driver segments
	stack  *List // of the request that runs
	micros uint64
	in     int // its private pool, 0 none
	stream int
	gone   []int                 // private pools whose graphs are gone
	told   int                   // of them in this Trim
	blocks map[*pool.Block]*List // live ones with their stacks
	placed map[*pool.Block]place
}

// place is where a block was asked for.
type place struct{ stream, in int }

// segments is a driver whose memory is numbers.
type segments struct {
	r    *Recorder
	base map[int]uint64
	size map[int]int64
	of   map[int]place
	top  uint64
	used int64
}

// base is the first address, as of a GPU.
const base = 0x7f0000000000

// New begins a recording of a version of PyTorch: 2, 15.
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

// granule is what a driver hands memory out in, bytes.
const granule = 2 << 20

// place is an address for a segment.
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

// Frame is a line of a stack as a file has it.
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

// Alloc takes memory by a stack, the innermost frame first; nil where there is none.
func (r *Recorder) Alloc(bytes int64, stack *List) *pool.Block { return r.AllocIn(bytes, 0, 0, stack) }

// AllocIn is Alloc for a stream and a private pool, such as of a CUDA graph.
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
	r.stream, r.in = stream, in // what it returned may be of others
	if err != nil {
		r.event("oom", 0, (bytes+511)/512*512, stack)
		return nil
	}
	r.event("alloc", r.address(b), bytes, stack)
	r.blocks[b], r.placed[b] = stack, place{stream, in}
	return b
}

// Gone says that the graph of a private pool is gone: Empty returns its memory too.
func (r *Recorder) Gone(in int) { r.gone = append(r.gone, in) }

func (r *Recorder) address(b *pool.Block) uint64 {
	return r.driver.base[b.Segment] + uint64(b.Offset)
}

// Free gives memory back, by a stack of its own.
func (r *Recorder) Free(b *pool.Block, stack *List) {
	r.Ask(b, stack)
	r.Complete(b, stack)
}

// Ask frees a block that work of another stream still uses, until Complete.
func (r *Recorder) Ask(b *pool.Block, stack *List) {
	r.stream, r.in = r.placed[b].stream, r.placed[b].in
	r.event("free_requested", r.address(b), b.Requested, stack)
}

// Complete ends the life of a block.
func (r *Recorder) Complete(b *pool.Block, stack *List) {
	r.stream, r.in = r.placed[b].stream, r.placed[b].in
	r.event("free_completed", r.address(b), b.Requested, stack)
	delete(r.blocks, b)
	delete(r.placed, b)
	r.pool.Give(b)
}

// Empty is torch.cuda.empty_cache().
func (r *Recorder) Empty(stack *List) error {
	r.stack = stack
	if err := r.pool.Trim(); err != nil {
		return fmt.Errorf("emptying the cache: %w", err)
	}
	return nil
}

// Step is one Optimizer.step, in which do runs.
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

// Forget drops all but the last n events, as a ring of that length does.
func (r *Recorder) Forget(n int) { r.Events = r.Events[len(r.Events)-n:] }

// segment is a segment of the end as a file has it.
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

// Snapshot is the recording as the root of a file.
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
