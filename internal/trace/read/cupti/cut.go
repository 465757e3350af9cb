package cupti

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Cut writes the part of a recording that a model.Cut of its trace is; path is for messages.
// The recording is read twice, as first and again: which ranges are kept is known only when all are read.
func Cut(ctx context.Context, first, again io.Reader, path string, part *model.Cut, out io.Writer) error {
	text, err := part.JSON()
	if err != nil {
		return err
	}
	c := &cutter{part: part, out: out, r: newReader(path, model.NewRoom(math.MaxInt64)), keep: map[int]bool{}}
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
	part  *model.Cut
	out   io.Writer
	wrote int64 // bytes
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
	if k.kind == tOverhead {
		return // it may end with the recorder
	}
	if _, end, ok := c.r.f.span(k.kind); ok {
		for _, record := range k.records(1) {
			c.r.lastTime = max(c.r.lastTime, clamp(end.of(record)))
		}
	}
}

// take writes what is kept of a chunk.
func (c *cutter) take(k chunk) {
	var keeps func(record []byte) bool
	switch start, end, ok := c.f.span(k.kind); {
	case k.kind == tSchema:
		c.f.set(parseSchema(string(k.payload)))
	case k.kind == tCut:
		return // of a part of a part the inner one counts no more
	case ofDevice(k.kind):
		keeps = func(record []byte) bool { return c.part.KeepsDevice(clamp(start.of(record)), clamp(end.of(record))) }
	case ok:
		keeps = func(record []byte) bool { return c.part.KeepsHost(clamp(start.of(record)), clamp(end.of(record))) }
	case k.kind == tNVTX:
		keeps = c.keepsRange
	}
	c.filter(k, keeps)
}

// filter writes what is kept of a chunk's records, and says how many are not; nil keeps all.
func (c *cutter) filter(k chunk, keeps func(record []byte) bool) (left int) {
	if keeps == nil {
		c.chunk(k, k.payload)
		return 0
	}
	records := k.records(1)
	var kept []byte
	k.count = 0
	for _, record := range records {
		if keeps(record) {
			kept = append(kept, record...)
			k.count++
		}
	}
	if k.count > 0 {
		c.chunk(k, kept)
	}
	return len(records) - k.count
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
		var n int
		n, c.err = c.out.Write(b)
		c.wrote += int64(n)
	}
}
