// Package kineto reads traces of PyTorch's profiler: Kineto's Chrome trace JSON, plain or compressed, of any release.
//
// The text is read once, in blocks, and not stored. One goroutine reads and decompresses it, and cuts it where an
// event seems to begin. Parsers turn blocks into batches of events, assuming that the cuts are right. A merger merges
// the batches in file order, checks the cuts, and parses wrongly cut text again. An event allocates only its table
// row.
//
// Damaged files are repaired, not refused: see stringEnd for quotation marks in names, repairEvent for unreadable
// events, and Trace.Warnings for the repairs made.
package kineto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// IsTrace reports whether head begins a JSON trace: an object with the event array, or an array that starts with an
// event.
func IsTrace(head []byte) bool {
	head = bytes.TrimPrefix(head, byteOrder)
	is := false
	document.JSONElements(head, func(first []byte) bool {
		document.JSONMembers(first, func(key string, _ []byte) bool {
			is = key == "ph"
			return !is
		})
		return false
	})
	return is || eventsMember.Match(head)
}

var eventsMember = lazyregexp.New(`"traceEvents"\s*:\s*\[`)

// Read reads and finishes one trace (model.Trace.Finish). It recognises plain text, gzip and zstd by the first bytes
// of r; path is for messages. Device events name no process in this format; assignProcesses finds it.
//
// A truncated file, or one with broken compression, yields the part before the damage, with Truncated set and a
// warning. So does a trace that exceeds the memory budget room (bytes, 0 for outside.TraceMemory). Errors wrap
// gpuprof.ErrInput (no trace of this format, or no events) or the context's error.
func Read(ctx context.Context, r io.Reader, path string, room int64) (*model.Trace, error) {
	return read(ctx, r, path, readOptions{parsers: max(1, min(runtime.GOMAXPROCS(0), 4)), block: 1 << 20, room: room})
}

func read(ctx context.Context, r io.Reader, path string, how readOptions) (*model.Trace, error) {
	src := openSource(r, how.block)
	defer src.close()
	if src.empty {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file is empty", path).WithFix("record a trace with torch.profiler and export_chrome_trace (docs/analyze.md)")
	}
	m := newMerger(path, how.parsers)
	m.room = model.NewMemoryBudget(how.room)
	if err := runParsers(ctx, src, m, how.parsers); err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", path, err)
	}
	if m.doc.malformedAt >= 0 && !m.full { // the compressed data's end shows whether the file is damaged
		src.readToEnd(ctx)
	}
	return m.buildTrace(src)
}

func (m *merger) buildTrace(src *source) (*model.Trace, error) {
	if err := m.checkEvents(src); err != nil {
		return nil, err
	}
	m.addWarnings(src)
	shift := m.assembleTrace()
	m.t.Finish()
	m.room.Finish(m.t, shift)
	return m.t, nil
}

// runParsers has parsers turn the blocks of src into batches, and merges the batches into m.
func runParsers(ctx context.Context, src *source, m *merger, parsers int) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	depth := 2 * parsers
	order := make(chan *block, depth)
	work := make(chan *block, depth)
	free := make(chan *block, depth+2)
	batches := make([]chan *batch, parsers+1)
	for range cap(free) {
		free <- &block{}
	}
	wg.Go(func() { src.feedBlocks(ctx, order, work, free) })
	for id := 1; id <= parsers; id++ {
		mine := make(chan *batch, 3)
		for range cap(mine) {
			mine <- &batch{parser: id}
		}
		batches[id] = mine
		wg.Go(func() {
			p := newParser(id)
			for k := range work {
				select {
				case p.out = <-mine:
				case <-ctx.Done():
					return
				}
				k.done <- p.parseEvents(k.buf, k.n, 0, k.at, false)
			}
		})
	}
	for k := range order {
		var guess *batch
		select {
		case guess = <-k.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mergeBlock(k, guess)
		if m.isDone() {
			return nil // further events would be dropped
		}
		if guess != nil {
			batches[guess.parser] <- guess
		}
		free <- k
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	m.finishText()
	return nil
}

// checkEvents returns an error if the file has nothing to analyse.
func (m *merger) checkEvents(src *source) error {
	if m.phased > 0 && m.host.n+m.gpu.n+m.memory.n > 0 {
		return nil
	}
	failed := src.err != nil && !errors.Is(src.err, io.EOF)
	if m.textLen == 0 && failed && src.compression == "" {
		return fmt.Errorf("reading trace %s: %w", m.t.Path, src.err)
	}
	var why string
	switch {
	case m.textLen == 0 && failed:
		why = fmt.Sprintf("the %s data cannot be read (%v); copy the file again, or", src.compression, src.err)
	case m.textLen == 0 || m.doc.state == begin:
		why = "the file holds no text;"
	case !m.doc.objects:
		why = m.describeDocument()
	default:
		why = m.describeEmptyArray(failed)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %s record one with torch.profiler and export_chrome_trace (docs/analyze.md)", m.t.Path, why)
}

func (m *merger) cutEarly() string {
	if m.tooLong {
		return fmt.Sprintf("the element at byte %d, before its first event, is longer than %d MiB;", m.unfinished, carryMax>>20)
	}
	return fmt.Sprintf("the text ends at byte %d before its first event does; copy the file again, or", m.textLen)
}

// describeDocument explains why a document without an event array cannot be read.
func (m *merger) describeDocument() string {
	d := &m.doc
	switch {
	case d.binary:
		return "this is a binary file and no JSON trace;"
	case d.noArray:
		return "traceEvents is no array of events;"
	case d.malformedAt >= 0:
		return fmt.Sprintf("this is no JSON trace (byte %d);", d.malformedAt)
	case d.state == finished:
		return "this is JSON without an array traceEvents;"
	}
	return m.cutEarly()
}

// describeEmptyArray explains why an array has no usable event.
func (m *merger) describeEmptyArray(failed bool) string {
	none := m.t.Events == 0 && m.notObjects == 0
	switch {
	case failed || none && (m.unfinished >= 0 || m.doc.state != finished && !m.doc.array):
		return m.cutEarly()
	case none:
		return "the trace holds 0 events; profile at least one step:"
	case m.phased == 0:
		return "the elements of its array are no trace events;"
	}
	return fmt.Sprintf("none of its %d events has a category of torch.profiler's operators, runtime calls or device operations (an export of torch.autograd.profiler without Kineto has none);", m.t.Events)
}
