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

// Cut writes a part of a trace as a complete trace in plain text: the text around the events, the metadata, the events
// of the part byte for byte, and the flows with both ends in the part. Elements that are no events are left out. r
// holds the whole file. It returns the number of written events.
func Cut(ctx context.Context, r io.Reader, path string, part *model.Cut, shift int64, w io.Writer) (int, error) {
	mark, err := part.JSON()
	if err != nil {
		return 0, err
	}
	src := open(r, 1<<20)
	defer src.close()
	m := newMerger(path, 0)
	c := &cutter{m: m, part: part, shift: shift, mark: mark, w: bufio.NewWriterSize(w, 1<<16), open: map[laneKey][]openEvent{}, arrows: map[flowKey]*arrowEnds{}}
	m.pass, m.own.raw = c.copyOutside, c.writeEvent
	for k := (&block{}); ctx.Err() == nil && !m.isDone() && src.nextBlock(k); {
		m.mergeBlock(k, nil)
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("cutting trace %s: %w", path, context.Cause(ctx))
	}
	m.finishText()
	c.close()
	if err := c.w.Flush(); err != nil {
		return 0, fmt.Errorf("writing a part of trace %s: %w", path, err)
	}
	return c.written, nil
}

// cutter writes those events of a trace that belong to the part to cut out.
type cutter struct {
	m       *merger
	part    *model.Cut
	shift   int64
	mark    []byte
	w       *bufio.Writer // keeps its first error until Flush
	marked  bool
	written int
	open    map[laneKey][]openEvent
	arrows  map[flowKey]*arrowEnds
}

type openEvent struct {
	text []byte
	ts   int64
	kind category
}

type flowKey struct {
	category string
	id       int64
}

// arrowEnds holds the ends of a flow seen so far; text is the first end until another one arrives, and both reports
// that two are written.
type arrowEnds struct {
	ph   byte
	text []byte
	both bool
}

// copyOutside copies the text around the events, with the description of the cut as the first member.
func (c *cutter) copyOutside(text []byte, at int64) {
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
	c.writeText(text)
}

// writeText writes text; errors show at Flush.
func (c *cutter) writeText(text []byte) { _, _ = c.w.Write(text) }

// close writes the closing brackets that the file lacks.
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
		c.writeText([]byte{','})
	}
	c.writeText([]byte{'\n'})
	c.writeText(text)
	c.written++
}

// writeEvent writes the parsed event, the bytes [i, j) of the parser's window, if it belongs to the part of the trace
// that is cut out. Metadata and events without a time always belong. A begin event waits for its end event, and one end
// of a flow for the other.
func (c *cutter) writeEvent(i, j int) {
	p := c.m.own
	e, text := &p.ev, p.b[i:j]
	if e.has&hasTS == 0 || e.ph == 'M' {
		c.write(text)
		return
	}
	ts := e.ts + c.shift
	kind := p.lookUpCategory(e.cat).meaning.category
	if string(p.bytesOfToken(e.cat)) == "gpu_user_annotation" || string(p.bytesOfToken(e.cat)) == "cuda_event" {
		kind = waiting
	}
	switch e.ph {
	case 'X':
		if c.isKept(kind, ts, ts+max(e.dur, 0)) {
			c.write(text)
		}
	case 'B':
		k := p.laneKey()
		c.open[k] = append(c.open[k], openEvent{bytes.Clone(text), ts, kind})
	case 'E':
		c.closeEvent(p.laneKey(), text, ts)
	case 's', 't', 'f':
		c.writeFlow(flowKey{string(p.bytesOfToken(e.cat)), e.id}, e.ph, text, ts)
	default: // an event of zero length
		if c.part.Host.Start <= ts && ts < max(c.part.Host.End, c.part.Device.End) {
			c.write(text)
		}
	}
}

func (c *cutter) isKept(kind category, start, end int64) bool {
	if kind == device || kind == waiting {
		return c.part.KeepsDevice(start, end)
	}
	return c.part.KeepsHost(start, end)
}

func (c *cutter) closeEvent(k laneKey, text []byte, ts int64) {
	open := c.open[k]
	if len(open) == 0 {
		return
	}
	b := open[len(open)-1]
	c.open[k] = open[:len(open)-1]
	if c.isKept(b.kind, b.ts, max(b.ts, ts)) {
		c.write(b.text)
		c.write(text)
	}
}

// writeFlow handles one end of a flow (an arrow between two events) with the key a; ts is the time of the event to
// which the end is attached. Ends outside the part are left out. The first end inside waits until one of another phase
// arrives; then both are written, and later ones at once.
func (c *cutter) writeFlow(a flowKey, ph byte, text []byte, ts int64) {
	if !c.part.KeepsHost(ts, ts) && !c.part.KeepsDevice(ts, ts) {
		return
	}
	e := c.arrows[a]
	switch {
	case e == nil:
		c.arrows[a] = &arrowEnds{ph: ph, text: bytes.Clone(text)}
		return
	case e.both:
	case e.ph == ph:
		c.arrows[a] = &arrowEnds{ph: ph, text: bytes.Clone(text)} // the id is used again
		return
	default:
		c.write(e.text)
		e.both, e.text = true, nil
	}
	c.write(text)
}
