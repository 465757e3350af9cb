package cupti

import (
	"context"
	"io"
	"math"
	"os"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Limit removes the records of a closed recording that begin more than stretch ns after its first kernel or graph. In a
// recording without both, it counts from the first device operation. It returns the number of removed records. Limit
// moves the kept records towards the start of the file. If it is interrupted, the part already moved is a valid
// recording.
func Limit(ctx context.Context, f *os.File, stretch int64) (left int, err error) {
	l := &limiter{cutter: cutter{r: newReader(f.Name(), model.NewMemoryBudget(math.MaxInt64))}, first: math.MaxInt64, other: math.MaxInt64}
	if _, err := l.eachChunk(ctx, readWhole(f), f.Name(), l.scanChunk); err != nil {
		return 0, err
	}
	if l.first == math.MaxInt64 {
		l.first = l.other
	}
	if l.first == math.MaxInt64 || l.last <= l.first+stretch {
		return 0, nil
	}
	l.until, l.at, l.into = l.first+stretch, int64(headBytes), f
	if _, err := l.eachChunk(ctx, readWhole(f), f.Name(), l.cutChunk); err != nil {
		return 0, err
	}
	if l.err == nil && l.out != nil {
		l.err = f.Truncate(l.at + l.wrote)
	}
	if l.err != nil {
		return 0, gpuprof.Errorf(nil, "cutting trace %s at the end of its window: %w", f.Name(), l.err).WithFix("analyze it as it is")
	}
	return l.left, nil
}

func readWhole(f *os.File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

// limiter removes the records that begin after until, ns of CUPTI's clock. Its cutter writes from the first changed
// chunk on.
type limiter struct {
	cutter
	into        io.WriterAt
	first, last int64 // starts of the first kernel or graph and of the last record, on CUPTI's clock
	other       int64 // start of the first other operation
	until       int64
	at          int64 // position of the first changed chunk
	left        int   // number of removed records
}

// startTime returns a function for the start of a chunk's records, ns of CUPTI's clock; nil if they have no times.
func (l *limiter) startTime(k chunk) func(record []byte) int64 {
	if k.kind == tNVTX {
		return func(record []byte) int64 { return l.r.convertTime(clampInt64(l.r.f.nvtx.time.valueIn(record))) }
	}
	start, _, ok := l.r.f.timeFields(k.kind)
	if !ok {
		return nil
	}
	return func(record []byte) int64 { return clampInt64(start.valueIn(record)) }
}

// scanChunk reads clocks and the first and last times of the recording.
func (l *limiter) scanChunk(k chunk) {
	if k.kind == tSchema || k.kind == tClock {
		l.r.readChunk(k)
		return
	}
	began := l.startTime(k)
	if began == nil {
		return
	}
	for _, record := range k.splitRecords(1) {
		at := began(record)
		switch {
		case at <= 0 || !isDeviceRecord(k.kind):
		case k.kind == tKernel || k.kind == tGraph:
			l.first = min(l.first, at)
		default:
			l.other = min(l.other, at)
		}
		l.last = max(l.last, at)
	}
}

// cutChunk writes the kept records of a chunk, from the first changed chunk on.
func (l *limiter) cutChunk(k chunk) {
	var keeps func(record []byte) bool
	began := l.startTime(k)
	late := func(record []byte) bool { return began(record) > l.until }
	if began != nil && slices.ContainsFunc(k.splitRecords(1), late) {
		keeps = func(record []byte) bool { return !late(record) }
	}
	switch {
	case keeps == nil && l.out == nil: // nothing before it was removed
		l.at += int64(chunkHead + len(k.payload))
		return
	case l.out == nil:
		l.out = io.NewOffsetWriter(l.into, l.at)
	}
	l.left += l.filterRecords(k, keeps)
}
