package kineto

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Cut writes the part of a trace as a trace of its own: what surrounds the events as it
// is, the metadata, the events of the part byte for byte, and the arrows of which both
// ends are kept, as plain text. r holds the file that the part is of, from its beginning.
// It returns how many events were written. Elements that are no events are left out.
func Cut(ctx context.Context, r io.Reader, path string, part *model.Cut, shift int64, w io.Writer) (int, error) {
	mark, err := part.JSON()
	if err != nil {
		return 0, err
	}
	src := open(r, 1<<20)
	defer src.close()
	m := newMerger(path, 0)
	c := &cutter{m: m, part: part, shift: shift, mark: mark, w: bufio.NewWriterSize(w, 1<<16), open: map[laneKey][]begun{}, arrows: map[flowKey]*ends{}}
	m.pass, m.own.raw = c.around, c.event
	for k := (&block{}); ctx.Err() == nil && !m.ended() && src.next(k); {
		m.block(k, nil)
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("cutting trace %s: %w", path, context.Cause(ctx))
	}
	m.finish()
	c.close()
	if err := c.w.Flush(); err != nil {
		return 0, fmt.Errorf("writing a part of trace %s: %w", path, err)
	}
	return c.written, nil
}

// cutter writes a part of the events that its merger reads.
type cutter struct {
	m       *merger
	part    *model.Cut
	shift   int64
	mark    []byte
	w       *bufio.Writer // keeps its first error to itself until Flush
	marked  bool
	written int
	open    map[laneKey][]begun
	arrows  map[flowKey]*ends
}

// begun is a begin event whose end is not known.
type begun struct {
	text []byte
	ts   int64
	kind category
}

// flowKey is what the ends of a flow have in common.
type flowKey struct {
	category string
	id       int64
}

// ends are those of a flow that were seen; text is of the first, until there is the other.
type ends struct {
	ph   byte
	text []byte
	both bool
}

// around copies the text around the events, with the mark as the first member.
func (c *cutter) around(text []byte, at int64) {
	if d := &c.m.doc; d.extra >= 0 && d.state == finished {
		text = text[:max(0, min(d.extra-at, int64(len(text))))]
	}
	for len(text) > 0 && !c.marked {
		k := bytes.IndexAny(text, "{[")
		if k < 0 {
			return // blanks before the document
		}
		c.marked = true
		fmt.Fprintf(c.w, "{%q:%s,", document.PartMember, c.mark)
		if text = text[k+1:]; c.m.doc.array {
			fmt.Fprint(c.w, `"traceEvents":[`)
		}
	}
	c.put(text)
}

// put writes text; Flush gives the error.
func (c *cutter) put(text []byte) { _, _ = c.w.Write(text) }

// close ends what the file did not end.
func (c *cutter) close() {
	d := &c.m.doc
	switch {
	case !c.marked:
	case d.state == inEvents:
		fmt.Fprint(c.w, "]}")
	case d.array || d.state != finished:
		fmt.Fprint(c.w, "}")
	}
}

func (c *cutter) write(text []byte) {
	if c.written > 0 {
		c.put([]byte{','})
	}
	c.put([]byte{'\n'})
	c.put(text)
	c.written++
}

// event writes the event that the parser has read, where the part keeps it.
func (c *cutter) event(i, j int) {
	p := c.m.own
	e, text := &p.ev, p.b[i:j]
	if e.has&hasTS == 0 || e.ph == 'M' {
		c.write(text)
		return
	}
	ts := e.ts + c.shift
	kind := p.category(e.cat).meaning.category
	if string(p.bytes(e.cat)) == "gpu_user_annotation" || string(p.bytes(e.cat)) == "cuda_event" {
		kind = waiting
	}
	switch e.ph {
	case 'X':
		if c.keeps(kind, ts, ts+max(e.dur, 0)) {
			c.write(text)
		}
	case 'B':
		k := p.laneKey()
		c.open[k] = append(c.open[k], begun{bytes.Clone(text), ts, kind})
	case 'E':
		c.end(p.laneKey(), text, ts)
	case 's', 't', 'f':
		c.flow(flowKey{string(p.bytes(e.cat)), e.id}, e.ph, text, ts)
	default: // of one instant
		if c.part.Host.Start <= ts && ts < max(c.part.Host.End, c.part.Device.End) {
			c.write(text)
		}
	}
}

func (c *cutter) keeps(kind category, start, end int64) bool {
	if kind == device || kind == waiting {
		return c.part.KeepsDevice(start, end)
	}
	return c.part.KeepsHost(start, end)
}

// end closes the innermost open event of a thread.
func (c *cutter) end(k laneKey, text []byte, ts int64) {
	open := c.open[k]
	if len(open) == 0 {
		return
	}
	b := open[len(open)-1]
	c.open[k] = open[:len(open)-1]
	if c.keeps(b.kind, b.ts, max(b.ts, ts)) {
		c.write(b.text)
		c.write(text)
	}
}

// flow writes the ends of an arrow once two kinds of them lie in the part. An end
// stands at the start of what it is drawn to.
func (c *cutter) flow(a flowKey, ph byte, text []byte, ts int64) {
	if !c.part.KeepsHost(ts, ts) && !c.part.KeepsDevice(ts, ts) {
		return
	}
	e := c.arrows[a]
	switch {
	case e == nil:
		c.arrows[a] = &ends{ph: ph, text: bytes.Clone(text)}
		return
	case e.both:
	case e.ph == ph:
		c.arrows[a] = &ends{ph: ph, text: bytes.Clone(text)} // the id is used again
		return
	default:
		c.write(e.text)
		e.both, e.text = true, nil
	}
	c.write(text)
}
