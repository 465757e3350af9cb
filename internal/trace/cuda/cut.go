package cuda

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
)

// Cut writes the part of a recording that a trace.Cut of its trace is; path is for messages.
// The recording is read twice, as first and again: which ranges are kept is known only when all are read.
func Cut(ctx context.Context, first, again io.Reader, path string, part *trace.Cut, out io.Writer) error {
	text, err := part.JSON()
	if err != nil {
		return err
	}
	c := &cutter{part: part, out: out, r: newReader(path, trace.NewRoom(math.MaxInt64)), keep: map[int]bool{}}
	whole, err := c.each(ctx, first, path, c.look)
	if err != nil {
		return err
	}
	for _, p := range c.r.pairs() {
		if s := c.r.spanOf(p); part.KeepsHost(s.Start, s.End) {
			c.keep[p.begin], c.keep[p.end] = true, true
		}
	}
	c.write([]byte(magic))
	c.write(le.AppendUint32(le.AppendUint32(nil, version), byteOrder))
	c.chunk(chunk{kind: tCut, count: 1}, text)
	n, err := c.each(ctx, again, path, c.take)
	if err != nil {
		return err
	}
	if n < whole {
		return gpuprof.Errorf(gpuprof.ErrInput, "cutting trace %s: it was longer when it was read before", path).WithFix("cut it once it is written")
	}
	if c.err != nil {
		return fmt.Errorf("writing a part of trace %s: %w", path, c.err)
	}
	return nil
}

// cutter writes chunks with what is kept of them.
type cutter struct {
	part  *trace.Cut
	out   io.Writer
	err   error
	r     *reader      // that read the whole
	keep  map[int]bool // calls of NVTX, by their places
	event int
	f     named
}

// each hands over the whole chunks of a recording, and says how many there are. What follows
// them in a torn file is none.
func (c *cutter) each(ctx context.Context, in io.Reader, path string, take func(chunk)) (n int, err error) {
	chunks, err := newChunks(in)
	if err != nil {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix(again)
	}
	for ; ; n++ {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("cutting trace %s: %w", path, context.Cause(ctx))
		}
		k, err := chunks.next()
		if err != nil {
			return n, nil
		}
		take(k)
	}
}

// look takes what ranges need: the calls of NVTX, clocks, and when the recording ends.
func (c *cutter) look(k chunk) {
	switch k.kind {
	case tSchema, tClock, tNVTX:
		c.r.take(k)
		return
	}
	f := &c.r.f
	end, ok := map[uint16]field{tKernel: f.kernel.end, tCopy: f.copy.end, tFill: f.fill.end, tGraph: f.graph.end, tCall: f.call.end}[k.kind]
	if !ok {
		return
	}
	for _, record := range k.records(1) {
		c.r.lastTime = max(c.r.lastTime, clamp(end.of(record)))
	}
}

// take writes what is kept of a chunk.
func (c *cutter) take(k chunk) {
	var keeps func(record []byte) bool
	device := func(start, end field) func([]byte) bool {
		return func(record []byte) bool { return c.part.KeepsDevice(clamp(start.of(record)), clamp(end.of(record))) }
	}
	host := func(start, end field) func([]byte) bool {
		return func(record []byte) bool { return c.part.KeepsHost(clamp(start.of(record)), clamp(end.of(record))) }
	}
	f := &c.f
	switch k.kind {
	case tSchema:
		f.set(parseSchema(string(k.payload)))
	case tCut:
		return // of a part of a part the inner one counts no more
	case tKernel:
		keeps = device(f.kernel.start, f.kernel.end)
	case tCopy:
		keeps = device(f.copy.start, f.copy.end)
	case tFill:
		keeps = device(f.fill.start, f.fill.end)
	case tGraph:
		keeps = device(f.graph.start, f.graph.end)
	case tCall:
		keeps = host(f.call.start, f.call.end)
	case tOverhead:
		keeps = host(f.overhead.start, f.overhead.end)
	case tNVTX:
		keeps = c.keepsRange
	}
	if keeps == nil {
		c.chunk(k, k.payload)
		return
	}
	var kept []byte
	n := 0
	for _, record := range k.records(1) {
		if keeps(record) {
			kept = append(kept, record...)
			n++
		}
	}
	if n > 0 {
		k.count = n
		c.chunk(k, kept)
	}
}

// keepsRange says whether a call of NVTX is kept. Those without a time count in neither reading.
func (c *cutter) keepsRange(record []byte) bool {
	if t := c.f.nvtx.time.of(record); t == 0 || clamp(t) != int64(t) {
		return false
	}
	c.event++
	return c.keep[c.event-1]
}

func (c *cutter) chunk(k chunk, payload []byte) {
	head := make([]byte, chunkHead)
	padded := (len(payload) + 7) &^ 7
	le.PutUint32(head, chunkMark)
	le.PutUint16(head[4:], k.kind)
	le.PutUint16(head[6:], uint16(k.record))
	le.PutUint32(head[8:], uint32(k.count))
	le.PutUint32(head[12:], uint32(padded))
	le.PutUint64(head[16:], uint64(k.at))
	c.write(head)
	c.write(payload)
	c.write(make([]byte, padded-len(payload)))
}

func (c *cutter) write(b []byte) {
	if c.err == nil {
		_, c.err = c.out.Write(b)
	}
}
