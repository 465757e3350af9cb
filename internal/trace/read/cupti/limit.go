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

// Limit leaves in a recording that is closed what begins within a stretch (ns) of the start of its first kernel or graph
// (its first operation on a device, if it has neither), and returns how many records it took away: operations, calls, and calls of NVTX. The file is changed in place,
// by moving what is kept forward: were it interrupted, the part up to there is still a recording.
func Limit(ctx context.Context, f *os.File, stretch int64) (left int, err error) {
	l := &limiter{cutter: cutter{r: newReader(f.Name(), model.NewRoom(math.MaxInt64))}, first: math.MaxInt64, other: math.MaxInt64}
	if _, err := l.each(ctx, whole(f), f.Name(), l.look); err != nil {
		return 0, err
	}
	if l.first == math.MaxInt64 {
		l.first = l.other
	}
	if l.first == math.MaxInt64 || l.last <= l.first+stretch {
		return 0, nil
	}
	l.until, l.at, l.into = l.first+stretch, int64(headBytes), f
	if _, err := l.each(ctx, whole(f), f.Name(), l.take); err != nil {
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

func whole(f *os.File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

// limiter cuts a recording at a time. Its cutter writes from the first chunk on that changes.
type limiter struct {
	cutter
	into        io.WriterAt
	first, last int64 // when the first kernel or graph and the last of everything began, on CUPTI's clock
	other       int64 // when the first operation of another kind did
	until       int64
	at          int64 // where the first chunk lies that changes
	left        int
}

// began are the times at which the records of a chunk began, on CUPTI's clock; nil for one that has no times.
func (l *limiter) began(k chunk) func(record []byte) int64 {
	if k.kind == tNVTX {
		return func(record []byte) int64 { return l.r.onDevice(clamp(l.r.f.nvtx.time.of(record))) }
	}
	start, _, ok := l.r.f.span(k.kind)
	if !ok {
		return nil
	}
	return func(record []byte) int64 { return clamp(start.of(record)) }
}

// look takes clocks and the times between which everything lies.
func (l *limiter) look(k chunk) {
	if k.kind == tSchema || k.kind == tClock {
		l.r.take(k)
		return
	}
	began := l.began(k)
	if began == nil {
		return
	}
	for _, record := range k.records(1) {
		at := began(record)
		switch {
		case at <= 0 || !ofDevice(k.kind):
		case k.kind == tKernel || k.kind == tGraph:
			l.first = min(l.first, at)
		default:
			l.other = min(l.other, at)
		}
		l.last = max(l.last, at)
	}
}

// take writes what is kept of a chunk, once something before it or of it is not.
func (l *limiter) take(k chunk) {
	var keeps func(record []byte) bool
	began := l.began(k)
	late := func(record []byte) bool { return began(record) > l.until }
	if began != nil && slices.ContainsFunc(k.records(1), late) {
		keeps = func(record []byte) bool { return !late(record) }
	}
	switch {
	case keeps == nil && l.out == nil: // it lies where it did
		l.at += int64(chunkHead + len(k.payload))
		return
	case l.out == nil:
		l.out = io.NewOffsetWriter(l.into, l.at)
	}
	l.left += l.filter(k, keeps)
}
