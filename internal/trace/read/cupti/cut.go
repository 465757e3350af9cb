package cupti

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Cut writes the part of a recording that part describes; path is for messages. first and again both read the recording
// from its start: the first pass finds the NVTX ranges to keep, and the second pass writes.
func Cut(ctx context.Context, first, again io.Reader, path string, part *model.Cut, out io.Writer) error {
	text, err := part.JSON()
	if err != nil {
		return err
	}
	c := &cutter{part: part, out: out, r: newReader(path, model.NewMemoryBudget(math.MaxInt64)), keptCalls: map[int]bool{}}
	whole, err := c.eachChunk(ctx, first, path, c.scanChunk)
	if err != nil {
		return err
	}
	for _, p := range c.r.pairRanges() {
		if s := c.r.spanOf(p); part.KeepsHost(s.Start, s.End) {
			c.keptCalls[p.begin], c.keptCalls[p.end] = true, true
		}
	}
	c.writeBytes([]byte(magic))
	c.writeBytes(le.AppendUint32(le.AppendUint32(nil, version), byteOrder))
	c.writeChunk(chunk{kind: tCut, count: 1}, text)
	n, err := c.eachChunk(ctx, again, path, c.cutChunk)
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

// cutter writes chunks with their kept records.
type cutter struct {
	part      *model.Cut
	out       io.Writer
	wrote     int64 // bytes written
	err       error
	r         *reader      // of the first pass
	keptCalls map[int]bool // kept NVTX calls, by position among them
	event     int          // number of NVTX calls seen in the second pass
	f         recordFields
}

// eachChunk calls f with each complete chunk of a recording and returns their number. It ignores an incomplete last
// chunk.
func (c *cutter) eachChunk(ctx context.Context, in io.Reader, path string, f func(chunk)) (n int, err error) {
	chunks, err := newChunks(in)
	if err != nil {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %w", path, err).WithFix(recordAgain)
	}
	for ; ; n++ {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("cutting trace %s: %w", path, context.Cause(ctx))
		}
		k, err := chunks.next()
		if err != nil {
			return n, nil
		}
		f(k)
	}
}

// scanChunk reads the chunks that decide which ranges are kept: NVTX calls, clocks, and the end times of other
// records.
func (c *cutter) scanChunk(k chunk) {
	switch k.kind {
	case tSchema, tClock, tNVTX:
		c.r.readChunk(k)
		return
	}
	if k.kind == tOverhead {
		return // overhead may last to the end of the recorder
	}
	if _, end, ok := c.r.f.timeFields(k.kind); ok {
		for _, record := range k.splitRecords(1) {
			c.r.lastTime = max(c.r.lastTime, clampInt64(end.valueIn(record)))
		}
	}
}

func (c *cutter) cutChunk(k chunk) {
	var keeps func(record []byte) bool
	switch start, end, ok := c.f.timeFields(k.kind); {
	case k.kind == tSchema:
		c.f.setLayouts(parseSchema(string(k.payload)))
	case k.kind == tCut:
		return // in a cut of a cut, the new description replaces the old one
	case isDeviceRecord(k.kind):
		keeps = func(record []byte) bool {
			return c.part.KeepsDevice(clampInt64(start.valueIn(record)), clampInt64(end.valueIn(record)))
		}
	case ok:
		keeps = func(record []byte) bool {
			return c.part.KeepsHost(clampInt64(start.valueIn(record)), clampInt64(end.valueIn(record)))
		}
	case k.kind == tNVTX:
		keeps = c.keepsRange
	}
	c.filterRecords(k, keeps)
}

// filterRecords writes the records of a chunk that keeps accepts, or all if keeps is nil. It returns how many it left
// out.
func (c *cutter) filterRecords(k chunk, keeps func(record []byte) bool) (left int) {
	if keeps == nil {
		c.writeChunk(k, k.payload)
		return 0
	}
	records := k.splitRecords(1)
	var kept []byte
	k.count = 0
	for _, record := range records {
		if keeps(record) {
			kept = append(kept, record...)
			k.count++
		}
	}
	if k.count > 0 {
		c.writeChunk(k, kept)
	}
	return len(records) - k.count
}

// keepsRange reports whether an NVTX call is kept. Calls without a time have no position, as in the first pass.
func (c *cutter) keepsRange(record []byte) bool {
	if t := c.f.nvtx.time.valueIn(record); t == 0 || clampInt64(t) != int64(t) {
		return false
	}
	c.event++
	return c.keptCalls[c.event-1]
}

func (c *cutter) writeChunk(k chunk, payload []byte) {
	head := make([]byte, chunkHead)
	padded := (len(payload) + 7) &^ 7
	le.PutUint32(head, chunkMark)
	le.PutUint16(head[4:], k.kind)
	le.PutUint16(head[6:], uint16(k.record))
	le.PutUint32(head[8:], uint32(k.count))
	le.PutUint32(head[12:], uint32(padded))
	le.PutUint64(head[16:], uint64(k.at))
	c.writeBytes(head)
	c.writeBytes(payload)
	c.writeBytes(make([]byte, padded-len(payload)))
}

func (c *cutter) writeBytes(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.out.Write(b)
		c.wrote += int64(n)
	}
}
