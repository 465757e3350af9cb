package nsys

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// form is what is made of a string of the StringIds table.
type form uint8

const (
	plainName form = iota
	kernelName
	apiName
	rangeName
)

// pendingBit marks a NameID as an index into names.pending: its text is in
// StringIds, which is read last, and only for what is used. That keeps the
// rest of that table, a program's captured output among it, out of memory.
const pendingBit = model.NameID(1) << 31

type names struct {
	t       *model.Trace
	byText  map[string]model.NameID
	byRef   map[ref]model.NameID
	pending []pending
	found   map[int64]string // wanted strings by id; "" until read
	missing int
	bytes   int64 // that all this takes
}

type ref struct {
	id   int64
	form form
}

// pending is a name whose text is not yet known, and what came of it.
type pending struct {
	ref
	name model.NameID
	seq  int64
	kind model.Kind
}

func newNames(t *model.Trace) names {
	return names{t: t, byText: map[string]model.NameID{}, byRef: map[ref]model.NameID{}, found: map[int64]string{}}
}

// maxName is more than the longest template instance worth keeping.
const maxName = 8192

// clean makes foreign text fit to be a name.
func clean(s string) string {
	if len(s) > maxName {
		s = s[:maxName]
	}
	return strings.Clone(strings.ToValidUTF8(strings.TrimRight(s, "\x00"), "\ufffd"))
}

// text is the id of a text.
func (n *names) text(s string) model.NameID {
	if id, ok := n.byText[s]; ok {
		return id
	}
	s = clean(s)
	if id, ok := n.byText[s]; ok {
		return id
	}
	id := model.NameID(len(n.t.Names))
	n.byText[s] = id
	n.t.Names = append(n.t.Names, s)
	n.bytes += model.TextBytes(s)
	return id
}

// want asks for a string of StringIds and returns its id.
func (n *names) want(v any) int64 {
	id, ok := integer(v)
	if !ok {
		return -1
	}
	if _, has := n.found[id]; !has {
		n.found[id] = ""
		n.bytes += foundBytes
	}
	return id
}

// of is the id of a column that refers to StringIds. Some tools write the
// text itself there.
func (n *names) of(v any, f form) model.NameID {
	id, ok := integer(v)
	if !ok {
		if f == rangeName {
			name, _, _ := n.nvtx(text(v))
			return name
		}
		return n.text(shape(text(v), f))
	}
	key := ref{id, f}
	if name, ok := n.byRef[key]; ok {
		return name
	}
	n.want(v)
	name := pendingBit | model.NameID(len(n.pending))
	n.pending = append(n.pending, pending{ref: key, kind: model.Annotation})
	n.byRef[key] = name
	n.bytes += pendingBytes
	return name
}

// nvtx is the id, sequence number and kind of a range by its text.
func (n *names) nvtx(s string) (model.NameID, int64, model.Kind) {
	name, seq, marked := model.SplitNVTX(s)
	return n.text(name), seq, model.RangeKind(name, seq != 0, marked)
}

// shape turns a string into a name, by what it names.
func shape(s string, f form) string {
	if f == apiName {
		s = analyze.PlainCall(s)
	}
	if s == "" {
		return "unnamed"
	}
	return s
}

// strings reads what is wanted of StringIds.
func (r *reader) strings(ctx context.Context, table string, c columns) error {
	if !c.has("id", "value") || len(r.names.found) == 0 {
		return nil
	}
	first := true
	var lo, hi int64
	for id := range r.names.found {
		if first {
			lo, hi, first = id, id, false
		}
		lo, hi = min(lo, id), max(hi, id)
	}
	id := c.column("id")
	q := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s BETWEEN %d AND %d", id, c.column("value"), r.from(table), id, lo, hi)
	return r.query(ctx, q, 2, func(v []any) {
		if id, ok := integer(v[0]); ok {
			if old, wanted := r.names.found[id]; wanted && old == "" && !r.room.Over(r.used()) {
				s := clean(text(v[1]))
				r.names.found[id] = s
				r.names.bytes += int64(len(s))
			}
		}
	})
}

// resolve gives every pending name its text.
func (r *reader) resolve() {
	n := &r.names
	for i := range n.pending {
		p := &n.pending[i]
		s := n.found[p.id]
		switch {
		case s == "":
			n.missing++
			p.name = n.text(fmt.Sprintf("%s %d", unnamed(p.form), p.id))
		case p.form == rangeName:
			p.name, p.seq, p.kind = n.nvtx(s)
		default:
			p.name = n.text(shape(s, p.form))
		}
	}
	for _, hs := range [][]model.Host{r.t.Host, r.loose} {
		for i := range hs {
			if h := &hs[i]; h.Name&pendingBit != 0 {
				p := &n.pending[h.Name&^pendingBit]
				h.Name = p.name
				if p.form == rangeName && h.Kind == model.Annotation {
					h.Seq, h.Kind = p.seq, p.kind
				}
			}
		}
	}
	for i := range r.t.GPU {
		if g := &r.t.GPU[i]; g.Name&pendingBit != 0 {
			g.Name = n.pending[g.Name&^pendingBit].name
		}
	}
	r.resolveStacks()
}

func unnamed(f form) string {
	switch f {
	case kernelName:
		return "unnamed kernel"
	case apiName:
		return "unnamed call"
	}
	return "unnamed range"
}
