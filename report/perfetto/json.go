package perfetto

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
)

// arg is an argument of an event. A value that JSON cannot encode is omitted.
type arg struct {
	key   string
	value any
}

// event is an entry of traceEvents. Times are in ns.
type event struct {
	ph         byte // X: slice, s and f: flow, C: counter, M: metadata
	name, cat  string
	pid, tid   int
	start, dur int64
	id         int64 // number of a flow
	args       []arg
}

// encoder writes the object form of the trace event format. The first keys identify a file of gpuprof.
type encoder struct {
	w   *bufio.Writer
	n   int
	buf []byte
}

// newEncoder writes header, in order, before the events.
func newEncoder(w io.Writer, header []arg) *encoder {
	e := &encoder{w: bufio.NewWriterSize(w, 1<<16)}
	e.buf = append(e.buf, '{')
	for _, a := range header {
		if b, err := json.Marshal(a.value); err == nil {
			e.buf = append(append(appendString(e.buf, a.key), ':'), b...)
			e.buf = append(e.buf, ",\n"...)
		}
	}
	e.buf = append(e.buf, `"traceEvents":[`...)
	e.flush()
	return e
}

// flush writes the buffer. bufio keeps the first error for close.
func (e *encoder) flush() {
	_, _ = e.w.Write(e.buf)
	e.buf = e.buf[:0]
}

func (e *encoder) close() error {
	e.buf = append(e.buf, "\n]}\n"...)
	e.flush()
	return e.w.Flush()
}

// appendString appends a JSON string; invalid UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		return append(b, `""`...)
	}
	return append(b, q...)
}

// appendMicros appends ns as microseconds with three decimals.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	f := ns % 1000
	return append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

func (e *encoder) writeEvent(v *event) {
	b := e.buf
	if e.n++; e.n > 1 {
		b = append(b, ',')
	}
	b = append(b, "\n{\"ph\":\""...)
	b = append(b, v.ph)
	b = append(b, `","name":`...)
	b = appendString(b, v.name)
	if v.cat != "" {
		b = appendString(append(b, `,"cat":`...), v.cat)
	}
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(v.pid), 10)
	if v.ph != 'C' {
		b = strconv.AppendInt(append(b, `,"tid":`...), int64(v.tid), 10)
	}
	if v.ph != 'M' {
		b = appendMicros(append(b, `,"ts":`...), v.start)
	}
	switch v.ph {
	case 'X':
		b = appendMicros(append(b, `,"dur":`...), v.dur)
	case 's', 'f':
		b = strconv.AppendInt(append(b, `,"id":`...), v.id, 10)
		if v.ph == 'f' {
			b = append(b, `,"bp":"e"`...) // the enclosing slice, not the next one
		}
	}
	if len(v.args) > 0 {
		b = append(b, `,"args":{`...)
		first := true
		for _, a := range v.args {
			q, err := json.Marshal(a.value)
			if err != nil {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(appendString(b, a.key), ':'), q...)
		}
		b = append(b, '}')
	}
	b = append(b, '}')
	e.buf = b
	e.flush()
}

// nameProcess names a process; order is its position from the top.
func (e *encoder) nameProcess(pid, order int, name, label string) {
	e.writeEvent(&event{ph: 'M', name: "process_name", pid: pid, args: []arg{{"name", name}}})
	if label != "" {
		e.writeEvent(&event{ph: 'M', name: "process_labels", pid: pid, args: []arg{{"labels", label}}})
	}
	e.writeEvent(&event{ph: 'M', name: "process_sort_index", pid: pid, args: []arg{{"sort_index", order}}})
}

func (e *encoder) nameThread(pid, tid int, name string) {
	e.writeEvent(&event{ph: 'M', name: "thread_name", pid: pid, tid: tid, args: []arg{{"name", name}}})
	e.writeEvent(&event{ph: 'M', name: "thread_sort_index", pid: pid, tid: tid, args: []arg{{"sort_index", tid}}})
}
