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

// item is one thing given to a stream that is being captured.
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

// recording collects what a captured stream is given.
type recording struct {
	items []item
	err   error // something that cannot be replayed
}

// spoil makes the capture fail even if fn ignores the error.
func (r *recording) spoil(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// captured replays a recording: as CUDA graphs, one for each run of items
// between event records, or where the driver cannot put something of it into a
// graph, call by call. Events are recorded between the graphs and not by nodes
// of one, because an event is then pending from the call on, as elsewhere: a
// node's is only once the node runs.
type captured struct {
	dev      *Device
	stream   *Stream // of the capture
	items    []item
	segments []segment
	parts    []gpuprof.Part
	total    device.Meter // what one replay counts
	valid    uint64       // Device.frees when the buffers were last seen alive
}

// segment is items [from, to), either one event record or a run of others.
type segment struct {
	from, to int
	exec     execHandle // 0: call by call
	// products: a library works in the memory of the capture's stream, so on another
	// stream the items go call by call.
	products bool
}

// Capture implements device.Device. While fn runs, launches, copies and
// records on s are kept instead of run, with their arguments as they are at
// the call; nothing is counted. Waiting on s inside fn is an error, and so is
// a second Capture. Only then is what was kept made into a graph, in a capture
// of the driver's own that no foreign call can spoil.
func (d *Device) Capture(st device.Stream, fn func() error) (device.Op, error) {
	if err := d.enter("capturing a stream"); err != nil {
		return nil, err
	}
	defer d.leave()
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != d {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "capturing a stream on CUDA: the stream belongs to another device").WithFix("make it on this one")
	}
	if err := s.usable("capturing"); err != nil {
		return nil, err
	}
	if d.capturing != nil {
		return nil, d.capturing.rec.spoil(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: stream %s is being captured", s.name, d.capturing.name).WithFix("finish that capture first"))
	}
	rec := &recording{}
	if err := d.record(s, rec, fn); err != nil {
		return nil, err
	}
	c := &captured{dev: d, stream: s, items: rec.items}
	for i := range c.items {
		c.sum(&c.items[i])
	}
	if err := c.revive(); err != nil { // fn may have freed what it used
		return nil, err
	}
	d.graphs = append(d.graphs, c) // whatever of it there is, Close destroys
	if err := c.instantiate(); err != nil {
		return nil, fmt.Errorf("capturing stream %s: %w", s.name, err)
	}
	return c, nil
}

func (d *Device) record(s *Stream, rec *recording, fn func() error) error {
	s.rec, d.capturing = rec, s
	defer func() { s.rec, d.capturing = nil, nil }()
	if err := fn(); err != nil {
		return fmt.Errorf("capturing stream %s: %w", s.name, err)
	}
	return rec.err
}

// sum adds what one replay of the item counts and shows.
func (c *captured) sum(it *item) {
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

// instantiate cuts the items into segments and makes their graphs. A segment
// stays without one where the driver has no way to capture something of it
// (pageable copies, cooperative launches on older drivers).
func (c *captured) instantiate() error {
	for i := 0; i < len(c.items); {
		seg := segment{from: i, to: i + 1}
		if c.items[i].kind != itemRecord {
			for seg.to < len(c.items) && c.items[seg.to].kind != itemRecord {
				seg.to++
			}
			if err := c.graph(&seg); err != nil {
				return err
			}
		}
		c.segments = append(c.segments, seg)
		i = seg.to
	}
	return nil
}

// graph makes a segment's graph, by a capture of the device's own stream.
func (c *captured) graph(seg *segment) (err error) {
	d, items := c.dev, c.items[seg.from:seg.to]
	calls := c.capturable(items)
	if calls == 0 {
		return nil
	}
	var lent []libRoutine
	defer func() {
		for _, lib := range lent {
			err = errors.Join(err, lib.reclaim())
		}
	}()
	for i := range items {
		if !items[i].product() {
			continue
		}
		lib := items[i].fn.lib
		if err := lib.lend(c.stream.h, items[i].n, &items[i].args); err != nil { // allocates, which a capture cannot
			return err
		}
		seg.products, lent = true, append(lent, lib)
	}
	if r := d.drv.CaptureBegin(d.own, captureThreadLocal); r != success {
		return d.unlessForeign(r, "beginning a graph")
	}
	r := success
	for i := 0; i < len(items) && r == success; i++ {
		r = c.enqueue(&items[i], d.own)
	}
	var g graphHandle
	// The capture has to be ended whatever happened, or the stream stays in it.
	end := d.drv.CaptureEnd(d.own, &g)
	if end != success {
		d.drv.CaptureEnd(d.own, &g) // fails where it is ended, which is what is wanted
	}
	if g != 0 {
		defer d.drv.GraphDestroy(g)
	}
	if r = first(r, end); r != success {
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

// unlessForeign lets what this driver cannot capture be replayed call by call;
// anything else is an error.
func (d *Device) unlessForeign(r Result, doing string) error {
	if r.notCapturable() {
		return nil
	}
	return d.check(r, doing)
}

// capturable counts the calls that the items make of the driver, 0 where one
// of them cannot be part of a graph.
func (c *captured) capturable(items []item) (calls int) {
	for i := range items {
		it := &items[i]
		if it.empty() {
			continue
		}
		calls++
		if it.kind == itemCopy && (it.dst.place == device.Pageable || it.src.place == device.Pageable) {
			return 0 // the driver stages these itself, which is no node of a graph
		}
	}
	return calls
}

// product reports whether a vendor's library runs the item.
func (it item) product() bool { return it.kind == itemLaunch && it.fn.lib != nil && !it.empty() }

// empty items ask nothing of the driver.
func (it *item) empty() bool {
	return (it.kind == itemLaunch || it.kind == itemCopy) && it.n == 0
}

// enqueue gives a checked item, which is no record, to a stream.
func (c *captured) enqueue(it *item, h streamHandle) Result {
	switch {
	case it.empty():
		return success
	case it.kind == itemLaunch:
		return it.fn.enqueue(h, it.n, &it.args)
	case it.kind == itemCopy:
		return c.dev.copyOn(h, it.dst, it.dstOff, it.src, it.srcOff, it.n)
	}
	return it.layer.enqueue(h)
}

// revive checks that every buffer of the recording is still alive. Nothing
// has to be looked at again until some buffer is freed.
func (c *captured) revive() error {
	for i := range c.items {
		if err := c.items[i].alive(); err != nil {
			return fmt.Errorf("replaying a capture, item %d of %d: %w", i+1, len(c.items), err)
		}
	}
	c.valid = c.dev.frees
	return nil
}

func (it *item) alive() error {
	switch it.kind {
	case itemLaunch:
		for _, i := range it.fn.bufs {
			if _, fault := it.fn.dev.buffer(it.args.Bufs[i]); fault != (gpuprof.Unfit{}) {
				return fault.Of("launching kernel %s: argument %d", it.fn.kernel.Name, i)
			}
		}
	case itemCopy:
		for _, b := range []*Buffer{it.dst, it.src} {
			if _, fault := b.dev.buffer(b); fault != (gpuprof.Unfit{}) {
				return fault.Of("copying %d bytes: one side", it.n)
			}
		}
	case itemLayer:
		return it.layer.alive()
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
		return s.usable("replaying a capture on stream " + s.name)
	}
	if c.valid != d.frees {
		if err := c.revive(); err != nil {
			return err
		}
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, c.items...)
		return nil
	}
	for i := range c.segments {
		if err := c.replay(s, &c.segments[i]); err != nil {
			return err
		}
	}
	d.meter = d.meter.Add(c.total)
	return nil
}

func (c *captured) replay(s *Stream, seg *segment) error {
	items := c.items[seg.from:seg.to]
	switch {
	case items[0].kind == itemRecord:
		return s.Record(items[0].event)
	case seg.exec != 0 && (s == c.stream || !seg.products):
		if r := c.dev.drv.GraphLaunch(seg.exec, s.h); r != success {
			again := func() Result { return c.dev.drv.GraphLaunch(seg.exec, s.h) }
			if err := s.dev.again(r, again, "launching a graph on stream "+s.name); err != nil {
				return err
			}
		}
	default:
		for i := range items {
			if r := c.enqueue(&items[i], s.h); r != success {
				again := func() Result { return c.enqueue(&items[i], s.h) }
				if err := s.dev.again(r, again, fmt.Sprintf("replaying a capture on stream %s, item %d of %d", s.name, seg.from+i+1, len(c.items))); err != nil {
					return err
				}
			}
		}
	}
	for i := range items {
		items[i].done(s)
	}
	return nil
}

// done notes that s was given the item.
func (it *item) done(s *Stream) {
	switch {
	case it.kind == itemLaunch && it.n > 0:
		s.launchedOn(it.fn)
	case it.kind == itemLayer:
		s.launchedOn(it.layer.fn)
	}
}

// Parts implements device.Op. They carry launches only: what a kernel
// computes and moves is known to who launches it.
func (c *captured) Parts() []gpuprof.Part { return c.parts }

// Graph reports whether all of the replay but its event records is in CUDA
// graphs.
func (c *captured) Graph() bool {
	for i := range c.segments {
		seg := &c.segments[i]
		if seg.exec == 0 && c.items[seg.from].kind != itemRecord {
			return false
		}
	}
	return true
}
