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

// Cut writes a part of a trace as a complete trace in plain text: the text around the events, the metadata, the
// events of the part byte for byte, and the flows with both ends in the part. It leaves out elements of the array
// that are not events. r holds the whole file. Cut returns the number of written elements.
func Cut(ctx context.Context, r io.Reader, path string, part *model.Cut, shift int64, w io.Writer) (int, error) {
	mark, err := part.JSON()
	if err != nil {
		return 0, err
	}
	src := openSource(r, 1<<20)
	defer src.close()
	m := newMerger(path, 0)
	c := &cutter{m: m, part: part, shift: shift, description: mark, w: bufio.NewWriterSize(w, 1<<16), open: map[laneKey][]openEvent{}, arrows: map[flowKey]*arrowEnds{}}
	m.onOutside, m.ownParser.onEvent = c.copyOutside, c.writeEvent
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

// cutter writes the events of a trace that belong to a part of it.
type cutter struct {
	m           *merger
	part        *model.Cut
	shift       int64
	description []byte
	w           *bufio.Writer // keeps its first error until Flush
	begun       bool
	written     int
	open        map[laneKey][]openEvent
	arrows      map[flowKey]*arrowEnds
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

// arrowEnds holds the ends of a flow seen so far. text is the first end, until an end of another phase arrives. both
// reports that ends of two phases are written.
type arrowEnds struct {
	ph   byte
	text []byte
	both bool
}

// copyOutside copies the text of the trace outside its event array. As the document's first member it writes
// PartMember, which describes the extracted part.
func (c *cutter) copyOutside(text []byte, at int64) {
	if d := &c.m.doc; d.extraAt >= 0 && d.state == finished {
		text = text[:max(0, min(d.extraAt-at, int64(len(text))))]
	}
	for len(text) > 0 && !c.begun {
		k := bytes.IndexAny(text, "{[")
		if k < 0 {
			return // white space before the document
		}
		c.begun = true
		fmt.Fprintf(c.w, "{%q:%s,", document.PartMember, c.description)
		if text = text[k+1:]; c.m.doc.array {
			fmt.Fprint(c.w, `"traceEvents":[`)
		}
	}
	c.writeText(text)
}

// writeText writes text; errors show at Flush.
func (c *cutter) writeText(text []byte) { _, _ = c.w.Write(text) }

// close writes the closing brackets that a truncated file lacks, and the brace of the object around a bare event
// array.
func (c *cutter) close() {
	d := &c.m.doc
	switch {
	case !c.begun:
	case d.state == inEvents:
		fmt.Fprint(c.w, "]}")
	case d.array || d.state != finished:
		fmt.Fprint(c.w, "}")
	}
}

func (c *cutter) writeElement(text []byte) {
	if c.written > 0 {
		c.writeText([]byte{','})
	}
	c.writeText([]byte{'\n'})
	c.writeText(text)
	c.written++
}

// writeEvent writes the parsed event, the bytes [i, j) of the parser's window, if it belongs to the part. Metadata
// and events without a time always belong. A begin event is written with its end event, and one end of a flow with
// the other.
func (c *cutter) writeEvent(i, j int) {
	p := c.m.ownParser
	e, text := &p.ev, p.b[i:j]
	if e.has&hasTS == 0 || e.ph == 'M' {
		c.writeElement(text)
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
			c.writeElement(text)
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
			c.writeElement(text)
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
		c.writeElement(b.text)
		c.writeElement(text)
	}
}

// writeFlow handles one end of the flow a (an arrow between two events); ts is the time of the event at that end.
// Ends outside the part are left out. The first end inside waits for an end of another phase. Then both are written,
// and further ends at once.
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
		c.arrows[a] = &arrowEnds{ph: ph, text: bytes.Clone(text)} // a new flow with the same id
		return
	default:
		c.writeElement(e.text)
		e.both, e.text = true, nil
	}
	c.writeElement(text)
}
