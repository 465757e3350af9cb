// Package kineto reads what PyTorch's profiler writes: Kineto's Chrome trace
// JSON, plain or compressed, of any release.
//
// The text is read once, in blocks, and not kept. A goroutine reads,
// decompresses and cuts it where an event seems to begin; parsers turn blocks
// into batches of events on that guess; a merger puts the batches together in
// the order of the file, checks the guesses, and reads again itself what was
// cut wrongly. Nothing is allocated for an event but its row in a table.
//
// Files from the wild are repaired rather than refused: see stringEnd for
// quotation marks in names, repair for events that cannot be read, and the
// warnings of a Trace for what was done.
package kineto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// IsTrace says whether a text that begins with head is a JSON trace: it names the
// array of events, or is an array whose first element is an event.
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

var eventsMember = regexp.MustCompile(`"traceEvents"\s*:\s*\[`)

// Read reads one trace. What r holds, plain text, gzip or zstd, is told by its
// first bytes; path is for messages. The trace is finished (see
// model.Trace.Finish).
//
// A file that ends early, or whose compression is broken, gives what was read,
// with Truncated set and a warning. Errors are of kind gpuprof.ErrInput (the
// file is no such trace, or holds no events) or the context's.
//
// Device events name no process in this format, and correlation ids repeat
// across processes in merged files: see processes for how it is found.
//
// room is the memory that the trace may take, bytes; 0 for outside.TraceMemory. Of a
// trace with more the first part is kept, with Truncated set and a warning.
func Read(ctx context.Context, r io.Reader, path string, room int64) (*model.Trace, error) {
	return read(ctx, r, path, shape{parsers: max(1, min(runtime.GOMAXPROCS(0), 4)), block: 1 << 20, room: room})
}

func read(ctx context.Context, r io.Reader, path string, how shape) (*model.Trace, error) {
	src := open(r, how.block)
	defer src.close()
	if src.empty {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the file is empty", path).WithFix("record a trace with torch.profiler and export_chrome_trace (docs/analyze.md)")
	}
	m := newMerger(path, how.parsers)
	m.room = model.NewRoom(how.room)
	if err := run(ctx, src, m, how.parsers); err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", path, err)
	}
	if m.doc.bad >= 0 && !m.full { // is it the maker's doing, or the file's damage? The end of the file tells
		src.drain(ctx)
	}
	return m.result(src)
}

// result is the trace of what was read.
func (m *merger) result(src *source) (*model.Trace, error) {
	if err := m.verdict(src); err != nil {
		return nil, err
	}
	m.warn(src)
	shift := m.assemble()
	m.t.Finish()
	m.room.Finish(m.t, shift)
	return m.t, nil
}

// run moves the blocks of src through the parsers into m.
func run(ctx context.Context, src *source, m *merger, parsers int) error {
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
	wg.Go(func() { src.feed(ctx, order, work, free) })
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
				k.done <- p.events(k.buf, k.n, 0, k.at, false)
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
		m.block(k, guess)
		if m.ended() {
			return nil // the rest would be left out
		}
		if guess != nil {
			batches[guess.parser] <- guess
		}
		free <- k
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	m.finish()
	return nil
}

// verdict says why there is nothing to analyse, if so.
func (m *merger) verdict(src *source) error {
	if m.phased > 0 && m.host.n+m.gpu.n+m.memory.n > 0 {
		return nil
	}
	failed := src.err != nil && !errors.Is(src.err, io.EOF)
	if m.end == 0 && failed && src.form == "" {
		return fmt.Errorf("reading trace %s: %w", m.t.Path, src.err)
	}
	var why string
	switch {
	case m.end == 0 && failed:
		why = fmt.Sprintf("the %s data cannot be read (%v); copy the file again, or", src.form, src.err)
	case m.end == 0 || m.doc.state == begin:
		why = "the file holds no text;"
	case !m.doc.objects:
		why = m.noArray()
	default:
		why = m.noEvents(failed)
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: %s record one with torch.profiler and export_chrome_trace (docs/analyze.md)", m.t.Path, why)
}

func (m *merger) cutEarly() string {
	if m.tooLong {
		return fmt.Sprintf("the element at byte %d, before its first event, is longer than %d MiB;", m.cut, carryMax>>20)
	}
	return fmt.Sprintf("the text ends at byte %d before its first event does; copy the file again, or", m.end)
}

// noArray says what a document without an array of events is.
func (m *merger) noArray() string {
	d := &m.doc
	switch {
	case d.binary:
		return "this is a binary file and no JSON trace;"
	case d.noArray:
		return "traceEvents is no array of events;"
	case d.bad >= 0:
		return fmt.Sprintf("this is no JSON trace (byte %d);", d.bad)
	case d.state == finished:
		return "this is JSON without an array traceEvents;"
	}
	return m.cutEarly()
}

// noEvents says what is wrong with an array of which nothing was kept.
func (m *merger) noEvents(failed bool) string {
	none := m.t.Events == 0 && m.strange == 0
	switch {
	case failed || none && (m.cut >= 0 || m.doc.state != finished && !m.doc.array):
		return m.cutEarly()
	case none:
		return "the trace holds 0 events; profile at least one step:"
	case m.phased == 0:
		return "the elements of its array are no trace events;"
	}
	return fmt.Sprintf("none of its %d events is an operator, a runtime call or a device operation of PyTorch's profiler;", m.t.Events)
}
