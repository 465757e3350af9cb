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

// markFailed makes the capture fail even if fn ignores err.
func (r *recording) markFailed(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// captured replays a recording. The items between two event records are one CUDA graph, or single calls if the driver
// cannot capture one of them. Event records are calls between the graphs, not graph nodes. A node's event is pending
// only once the node runs, but an event must be pending as soon as Enqueue returns.
type captured struct {
	dev      *Device
	stream   *Stream // the stream on which Capture recorded
	items    []item
	segments []segment
	parts    []gpuprof.Part
	total    device.Meter // counts of one replay
	valid    uint64       // Device.frees when the buffers were last checked
}

// segment is a range [from, to) of captured.items: one event record, or successive items of other kinds, which replay
// as one graph if the driver can capture them.
type segment struct {
	from, to int
	exec     execHandle // 0: single calls
	// usesLibrary means that a vendor library uses the workspace of the stream for which the segment was captured; on
	// other streams the segment replays by single calls.
	usesLibrary bool
}

// Capture implements device.Device. While fn runs, launches, copies and records on s are recorded with their current
// arguments; they are neither run nor counted. Waiting on s or a second Capture inside fn is an error. The graphs are
// made after fn, in a capture of the driver that no other call can invalidate.
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
	if err := c.checkBuffers(); err != nil { // fn may have freed buffers that it used
		return nil, err
	}
	d.graphs = append(d.graphs, c) // Close destroys even a partial capture
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

// countItem adds one replay of the item to total and parts.
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

// instantiateSegments cuts the items into segments and makes a graph of each, except those with an item that the
// driver cannot capture (pageable copies, cooperative launches on older drivers).
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

// captureGraph makes the graph of a segment by a capture on the device's own stream.
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
		if err := lib.prepareCapture(c.stream.h, items[i].n, &items[i].args); err != nil { // a capture cannot allocate
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
	// End the capture in every case; otherwise the stream would stay in it.
	end := d.drv.CaptureEnd(d.own, &g)
	if end != success {
		d.drv.CaptureEnd(d.own, &g) // ends a capture that is still active; fails otherwise, as expected
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

// unlessForeign returns nil if r means that the driver or a library cannot capture this work. The segment (the items
// between two event records) then has no graph, and a replay makes its calls one by one. Otherwise it returns r's
// error.
func (d *Device) unlessForeign(r Result, doing string) error {
	if r.notCapturable() {
		return nil
	}
	return d.check(r, doing)
}

// countCapturable returns the number of driver calls that the items make, or 0 if a graph cannot hold one of them.
func (c *captured) countCapturable(items []item) (calls int) {
	for i := range items {
		it := &items[i]
		if it.isEmpty() {
			continue
		}
		calls++
		if it.kind == itemCopy && (it.dst.place == device.Pageable || it.src.place == device.Pageable) {
			return 0 // the driver stages these itself, not in a graph node
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

// enqueueItem enqueues a checked item other than an event record.
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

// checkBuffers checks that the recording's buffers are still allocated. A replay repeats it only after a Free.
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

// Enqueue implements device.Op on any stream of the device. Inside a Capture the items become part of that recording.
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

func (it *item) noteLaunch(s *Stream) {
	switch {
	case it.kind == itemLaunch && it.n > 0:
		s.launchedOn(it.fn)
	case it.kind == itemLayer:
		s.launchedOn(it.layer.fn)
	}
}

// Parts implements device.Op. Each part has only its launches, because the device does not know a kernel's flops and
// bytes.
func (c *captured) Parts() []gpuprof.Part { return c.parts }

// Graph reports whether CUDA graphs hold the whole replay except event records.
func (c *captured) Graph() bool {
	for i := range c.segments {
		seg := &c.segments[i]
		if seg.exec == 0 && c.items[seg.from].kind != itemRecord {
			return false
		}
	}
	return true
}
