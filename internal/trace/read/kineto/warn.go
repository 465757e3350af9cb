package kineto

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof/internal/outside"
)

const recordAgain = "record it again, and let the program write the trace to its end"

func (m *merger) addWarnings(src *source) {
	t, d := m.t, &m.doc
	var cause error
	if src.err != nil && !errors.Is(src.err, io.EOF) {
		cause = src.err
	}
	whole := d.state == finished && m.unfinished < 0 || d.array && d.state == inEvents && m.unfinished < 0
	switch {
	case m.full:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("the trace holds more than the %s that memory has room for: the rest of its text, from byte %d on, was left out", outside.MemoryText(outside.TraceMemory()), m.textLen),
			"set "+outside.MemoryVariable+" higher, or record fewer steps")
	case cause != nil && d.state == finished && errors.Is(cause, gzip.ErrHeader):
		d.extraAt = m.textLen
	case cause != nil:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("the %s could not be read after byte %d of its text (%v); the part before that is analysed", nameCompression(src.compression), m.textLen, cause), recordAgain)
	case m.tooLong:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("the element at byte %d is longer than %d MiB, and no event is; the part before that is analysed", m.unfinished, carryMax>>20), recordAgain)
	case m.unfinished >= 0:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("the text ends at byte %d inside the element that begins at byte %d; the part before that is analysed", m.textLen, m.unfinished), recordAgain)
	case !whole:
		t.Truncated = true
		t.Warn("truncated", fmt.Sprintf("the text ends at byte %d before the trace does; the part before that is analysed", m.textLen), recordAgain)
	}
	if d.malformedAt >= 0 {
		t.Warn("malformed", fmt.Sprintf("the text around the events is not JSON at byte %d; its data about devices and ranks may be missing", d.malformedAt), recordAgain)
	}
	if d.extraAt >= 0 && m.unfinished < 0 && d.malformedAt < 0 {
		t.Warn("trailing-data", fmt.Sprintf("the text after the trace, from byte %d, was ignored", d.extraAt), "")
	}
	m.warnBad()
	m.warnUnknown()
}

func nameCompression(form string) string {
	if form == "" {
		return "file"
	}
	return form + " data"
}

func (m *merger) warnBad() {
	for _, open := range m.open {
		m.bad[unpaired] += len(open)
	}
	total := 0
	var parts []string
	for k, n := range m.bad {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(badTexts[k], n))
		}
		total += n
	}
	if m.notObjects > 0 {
		total += m.notObjects
		parts = append(parts, fmt.Sprintf("%d no objects", m.notObjects))
	}
	if total == 0 {
		return
	}
	where := ""
	if m.firstBad >= 0 {
		where = fmt.Sprintf(", the first at byte %d", m.firstBad)
	}
	m.t.Warn("bad-event", fmt.Sprintf("%d of %d events could not be used as they are%s: %s", total, m.t.Events+m.notObjects, where, strings.Join(parts, ", ")), "")
}

var badTexts = [badKinds]string{
	unreadable: "%d that are no JSON left out",
	noPhase:    "%d without a phase left out",
	noTime:     "%d without a usable time left out",
	noDuration: "%d without a duration taken as 0 long",
	negative:   "%d of negative duration taken as 0 long",
	unpaired:   "%d begin or end events without the other left out",
}

func (m *merger) warnUnknown() {
	if len(m.unknown) == 0 {
		return
	}
	names, total := make([]string, 0, len(m.unknown)), 0
	for k, n := range m.unknown {
		names = append(names, fmt.Sprintf("%q", decodeString([]byte(k))))
		total += n
	}
	slices.Sort(names)
	more := ""
	if len(names) > 8 {
		more = fmt.Sprintf(" and %d more", len(names)-8)
		names = names[:8]
	}
	m.t.Warn("unknown-category", fmt.Sprintf("%d events of unused categories were left out: %s%s", total, strings.Join(names, ", "), more), "")
}
