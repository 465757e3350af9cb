package cuda

import (
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

type itemKind uint8

const (
	itemLaunch itemKind = iota
	itemCopy
	itemRecord
	itemLayer
)

// item is one operation enqueued on a stream under capture.
type item struct {
	kind           itemKind
	fn             *kernelFunc
	args           device.Args
	dst, src       *Buffer
	dstOff, srcOff int
	n              int
	event          *Event
	layer          *layer
}

// recording collects the operations enqueued during a capture.
type recording struct {
	items []item
	err   error // first operation that cannot be replayed
}

// markFailed makes the capture fail even if fn ignores the error.
func (r *recording) markFailed(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// captured replays a recording. Each run of items between event records is one CUDA graph, or single calls where the
// driver cannot capture one of the items. Events are recorded between the graphs and not by graph nodes: an event is
// then pending from the call on, while a node's event is pending only once the node runs.
type captured struct {
	dev      *Device
	stream   *Stream // of the capture
	items    []item
	segments []segment
	parts    []gpuprof.Part
	total    device.Meter // counts of one replay
	valid    uint64       // Device.frees when the buffers were last seen alive
}

// segment holds items [from, to): one event record, or a run of other items.
type segment struct {
	from, to int
	exec     execHandle // 0: call by call
	// usesLibrary: a vendor library works in the memory of the captured stream, so on another stream the items run as
	// single calls.
	usesLibrary bool
}

// Capture implements device.Device. While fn runs, launches, copies and records on s are recorded and not run, with
// the arguments of the call; nothing is counted. Waiting on s inside fn is an error, and so is a second Capture. The
// graphs are made after fn, in a capture of the driver's own that no foreign call can invalidate.
func (d *Device) Capture(st device.Stream, fn func() error) (device.Op, error) {
	if err := d.enter("capturing a stream"); err != nil {
		return nil, err
	}
	defer d.leave()
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != d {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "capturing a stream on CUDA: the stream belongs to another device").WithFix("make it on this one")
	}
	if err := s.checkUsable("capturing"); err != nil {
		return nil, err
	}
	if d.capturing != nil {
		return nil, d.capturing.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: stream %s is being captured", s.name, d.capturing.name).WithFix("finish that capture first"))
	}
	rec := &recording{}
	if err := d.recordItems(s, rec, fn); err != nil {
		return nil, err
	}
	c := &captured{dev: d, stream: s, items: rec.items}
	for i := range c.items {
		c.countItem(&c.items[i])
	}
	if err := c.checkBuffers(); err != nil { // fn may have freed what it used
		return nil, err
	}
	d.graphs = append(d.graphs, c) // whatever of it there is, Close destroys
	if err := c.instantiateSegments(); err != nil {
		return nil, fmt.Errorf("capturing stream %s: %w", s.name, err)
	}
	return c, nil
}

func (d *Device) recordItems(s *Stream, rec *recording, fn func() error) error {
	s.rec, d.capturing = rec, s
	defer func() { s.rec, d.capturing = nil, nil }()
	if err := fn(); err != nil {
		return fmt.Errorf("capturing stream %s: %w", s.name, err)
	}
	return rec.err
}

// countItem adds the counts and the parts of one replay of the item.
func (c *captured) countItem(it *item) {
	switch it.kind {
	case itemLaunch:
		c.total.Launches++
		c.parts = append(c.parts, gpuprof.Part{Kernel: it.fn.kernel.Name, Cost: gpuprof.Cost{Launches: 1}})
	case itemCopy:
		c.total.CountCopy(it.dst.place, it.src.place, int64(it.n))
	case itemLayer:
		c.total.Launches++
		c.parts = append(c.parts, it.layer.parts...)
	case itemRecord:
	}
}

// instantiateSegments cuts the items into segments and makes their graphs. A segment stays without a graph where the
// driver cannot capture one of its items (pageable copies, cooperative launches on older drivers).
func (c *captured) instantiateSegments() error {
	for i := 0; i < len(c.items); {
		seg := segment{from: i, to: i + 1}
		if c.items[i].kind != itemRecord {
			for seg.to < len(c.items) && c.items[seg.to].kind != itemRecord {
				seg.to++
			}
			if err := c.captureGraph(&seg); err != nil {
				return err
			}
		}
		c.segments = append(c.segments, seg)
		i = seg.to
	}
	return nil
}

// captureGraph makes the graph of a segment by a capture of the device's own stream.
func (c *captured) captureGraph(seg *segment) (err error) {
	d, items := c.dev, c.items[seg.from:seg.to]
	calls := c.countCapturable(items)
	if calls == 0 {
		return nil
	}
	var lent []libRoutine
	defer func() {
		for _, lib := range lent {
			err = errors.Join(err, lib.endCapture())
		}
	}()
	for i := range items {
		if !items[i].usesLibrary() {
			continue
		}
		lib := items[i].fn.lib
		if err := lib.prepareCapture(c.stream.h, items[i].n, &items[i].args); err != nil { // allocates, which a capture cannot
			return err
		}
		seg.usesLibrary, lent = true, append(lent, lib)
	}
	if r := d.drv.CaptureBegin(d.own, captureThreadLocal); r != success {
		return d.unlessForeign(r, "beginning a graph")
	}
	r := success
	for i := 0; i < len(items) && r == success; i++ {
		r = c.enqueueItem(&items[i], d.own)
	}
	var g graphHandle
	// The capture must be ended in every case, or the stream stays in it.
	end := d.drv.CaptureEnd(d.own, &g)
	if end != success {
		d.drv.CaptureEnd(d.own, &g) // fails where it is ended, which is what is wanted
	}
	if g != 0 {
		defer d.drv.GraphDestroy(g)
	}
	if r = firstFailure(r, end); r != success {
		return d.unlessForeign(r, "capturing a graph")
	}
	var nodes uintptr
	if err := d.check(d.drv.GraphNodes(g, nil, &nodes), "counting a graph's nodes"); err != nil {
		return err
	}
	if int(nodes) < calls {
		return gpuprof.Errorf(gpuprof.ErrDevice, "capturing a graph: the driver kept %d of %d calls", nodes, calls).WithFix("run without graphs and report this as a bug")
	}
	var exec execHandle
	if r := d.drv.Instantiate(&exec, g); r != success {
		return d.unlessForeign(r, "instantiating a graph")
	}
	seg.exec = exec
	return nil
}

// unlessForeign returns nil for results that mean that this driver cannot capture the work, which is then replayed
// call by call. Any other result is an error.
func (d *Device) unlessForeign(r Result, doing string) error {
	if r.notCapturable() {
		return nil
	}
	return d.check(r, doing)
}

// countCapturable counts the driver calls of the items; 0 if one of them cannot be part of a graph.
func (c *captured) countCapturable(items []item) (calls int) {
	for i := range items {
		it := &items[i]
		if it.isEmpty() {
			continue
		}
		calls++
		if it.kind == itemCopy && (it.dst.place == device.Pageable || it.src.place == device.Pageable) {
			return 0 // the driver stages these itself, which is no node of a graph
		}
	}
	return calls
}

// usesLibrary reports whether a vendor library runs the item.
func (it item) usesLibrary() bool { return it.kind == itemLaunch && it.fn.lib != nil && !it.isEmpty() }

// isEmpty reports whether the item makes no driver call.
func (it *item) isEmpty() bool {
	return (it.kind == itemLaunch || it.kind == itemCopy) && it.n == 0
}

// enqueueItem enqueues a checked item, which is no event record, on a stream.
func (c *captured) enqueueItem(it *item, h streamHandle) Result {
	switch {
	case it.isEmpty():
		return success
	case it.kind == itemLaunch:
		return it.fn.enqueue(h, it.n, &it.args)
	case it.kind == itemCopy:
		return c.dev.copyOn(h, it.dst, it.dstOff, it.src, it.srcOff, it.n)
	}
	return it.layer.enqueue(h)
}

// checkBuffers checks that every buffer of the recording is still allocated. A replay repeats the check only after
// some buffer was freed.
func (c *captured) checkBuffers() error {
	for i := range c.items {
		if err := c.items[i].checkAlive(); err != nil {
			return fmt.Errorf("replaying a capture, item %d of %d: %w", i+1, len(c.items), err)
		}
	}
	c.valid = c.dev.frees
	return nil
}

func (it *item) checkAlive() error {
	switch it.kind {
	case itemLaunch:
		for _, i := range it.fn.bufs {
			if _, fault := it.fn.dev.checkBuffer(it.args[i].Buf); fault != (gpuprof.Unfit{}) {
				return fault.Of("launching kernel %s: argument %d", it.fn.kernel.Name, i)
			}
		}
	case itemCopy:
		for _, b := range []*Buffer{it.dst, it.src} {
			if _, fault := b.dev.checkBuffer(b); fault != (gpuprof.Unfit{}) {
				return fault.Of("copying %d bytes: one side", it.n)
			}
		}
	case itemLayer:
		return it.layer.checkAlive()
	case itemRecord:
	}
	return nil
}

// Enqueue implements device.Op on any stream of the device. Inside a Capture
// the items join that recording.
func (c *captured) Enqueue(st device.Stream) error {
	d := c.dev
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != d {
		return gpuprof.Errorf(gpuprof.ErrUsage, "replaying a capture on CUDA: the stream belongs to another device").WithFix("use one of this device")
	}
	if s.closed || d.lost != nil {
		return s.checkUsable("replaying a capture on stream " + s.name)
	}
	if c.valid != d.frees {
		if err := c.checkBuffers(); err != nil {
			return err
		}
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, c.items...)
		return nil
	}
	for i := range c.segments {
		if err := c.replaySegment(s, &c.segments[i]); err != nil {
			return err
		}
	}
	d.meter = d.meter.Add(c.total)
	return nil
}

func (c *captured) replaySegment(s *Stream, seg *segment) error {
	items := c.items[seg.from:seg.to]
	switch {
	case items[0].kind == itemRecord:
		return s.Record(items[0].event)
	case seg.exec != 0 && (s == c.stream || !seg.usesLibrary):
		if r := c.dev.drv.GraphLaunch(seg.exec, s.h); r != success {
			again := func() Result { return c.dev.drv.GraphLaunch(seg.exec, s.h) }
			if err := s.dev.retryWithContext(r, again, "launching a graph on stream "+s.name); err != nil {
				return err
			}
		}
	default:
		for i := range items {
			if r := c.enqueueItem(&items[i], s.h); r != success {
				again := func() Result { return c.enqueueItem(&items[i], s.h) }
				if err := s.dev.retryWithContext(r, again, fmt.Sprintf("replaying a capture on stream %s, item %d of %d", s.name, seg.from+i+1, len(c.items))); err != nil {
					return err
				}
			}
		}
	}
	for i := range items {
		items[i].noteLaunch(s)
	}
	return nil
}

// noteLaunch notes on s the kernel that the item launched.
func (it *item) noteLaunch(s *Stream) {
	switch {
	case it.kind == itemLaunch && it.n > 0:
		s.launchedOn(it.fn)
	case it.kind == itemLayer:
		s.launchedOn(it.layer.fn)
	}
}

// Parts implements device.Op. They carry launches only: the caller of the launch knows its flops and bytes.
func (c *captured) Parts() []gpuprof.Part { return c.parts }

// Graph reports whether CUDA graphs hold the whole replay except its event records.
func (c *captured) Graph() bool {
	for i := range c.segments {
		seg := &c.segments[i]
		if seg.exec == 0 && c.items[seg.from].kind != itemRecord {
			return false
		}
	}
	return true
}
