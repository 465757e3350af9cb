package nsys

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// nameForm is the way in which a string of StringIds becomes a name.
type nameForm uint8

const (
	plainName nameForm = iota
	kernelName
	apiName
	failedName // of a failed call
	rangeName
)

// pendingBit marks a NameID as an index into names.pending. The table StringIds is read last, and only the strings that
// events refer to are kept. So other strings, such as a program's captured output, take no memory.
const pendingBit = model.NameID(1) << 31

type names struct {
	t       *model.Trace
	byText  map[string]model.NameID
	byRef   map[stringRef]model.NameID
	pending []pendingName
	found   map[int64]string // requested strings by id; "" until read
	missing int
	bytes   int64 // memory of all names
}

type stringRef struct {
	id   int64
	form nameForm
}

// pendingName is a name whose text is not read yet.
type pendingName struct {
	stringRef
	name model.NameID
	seq  int64
	kind model.Kind
}

func newNames(t *model.Trace) names {
	return names{t: t, byText: map[string]model.NameID{}, byRef: map[stringRef]model.NameID{}, found: map[int64]string{}}
}

// maxName limits a name, bytes. Longer instances of templates are cut.
const maxName = 8192

func cleanName(s string) string {
	if len(s) > maxName {
		s = s[:maxName]
	}
	return strings.Clone(strings.ToValidUTF8(strings.TrimRight(s, "\x00"), "\ufffd"))
}

func (n *names) internText(s string) model.NameID {
	if id, ok := n.byText[s]; ok {
		return id
	}
	s = cleanName(s)
	if id, ok := n.byText[s]; ok {
		return id
	}
	id := model.NameID(len(n.t.Names))
	n.byText[s] = id
	n.t.Names = append(n.t.Names, s)
	n.bytes += model.TextBytes(s)
	return id
}

// requestString requests a string of StringIds and returns its id.
func (n *names) requestString(v any) int64 {
	id, ok := parseInteger(v)
	if !ok {
		return -1
	}
	if _, has := n.found[id]; !has {
		n.found[id] = ""
		n.bytes += foundBytes
	}
	return id
}

// nameID returns the name in a column that refers to StringIds, or that contains the text itself, as some tools write
// it.
func (n *names) nameID(v any, f nameForm) model.NameID {
	id, ok := parseInteger(v)
	if !ok {
		if f == rangeName {
			name, _, _ := n.parseRange(textOf(v))
			return name
		}
		return n.internText(formName(textOf(v), f))
	}
	key := stringRef{id, f}
	if name, ok := n.byRef[key]; ok {
		return name
	}
	n.requestString(v)
	name := pendingBit | model.NameID(len(n.pending))
	n.pending = append(n.pending, pendingName{stringRef: key, kind: model.Annotation})
	n.byRef[key] = name
	n.bytes += pendingBytes
	return name
}

// parseRange returns name, sequence number and kind of a range from its text.
func (n *names) parseRange(s string) (model.NameID, int64, model.Kind) {
	name, seq, marked := model.SplitNVTX(s)
	return n.internText(name), seq, model.RangeKind(name, seq != 0, marked)
}

// formName converts a string to a name by its form.
func formName(s string, f nameForm) string {
	if f == apiName || f == failedName {
		s = analyze.PlainCall(s)
	}
	if f == failedName {
		s = analyze.NameFailed(s)
	}
	if s == "" {
		return "unnamed"
	}
	return s
}

func (r *reader) readStrings(ctx context.Context, table string, c columns) error {
	if !c.hasAll("id", "value") || len(r.names.found) == 0 {
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
	id := c.firstColumn("id")
	q := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s BETWEEN %d AND %d", id, c.firstColumn("value"), r.quotedTable(table), id, lo, hi)
	return r.queryRows(ctx, q, 2, func(v []any) {
		if id, ok := parseInteger(v[0]); ok {
			if old, wanted := r.names.found[id]; wanted && old == "" && !r.room.Over(r.usedBytes()) {
				s := cleanName(textOf(v[1]))
				r.names.found[id] = s
				r.names.bytes += int64(len(s))
			}
		}
	})
}

func (r *reader) resolveNames() {
	n := &r.names
	for i := range n.pending {
		p := &n.pending[i]
		s := n.found[p.id]
		switch {
		case s == "":
			n.missing++
			p.name = n.internText(fmt.Sprintf("%s %d", unnamedText(p.form), p.id))
		case p.form == rangeName:
			p.name, p.seq, p.kind = n.parseRange(s)
		default:
			p.name = n.internText(formName(s, p.form))
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
		r.t.GPU[i].Name = n.finalName(r.t.GPU[i].Name)
	}
	resources := make(map[model.NameID]model.KernelResources, len(r.t.Resources))
	for name, of := range r.t.Resources {
		name = n.finalName(name)
		resources[name] = maxResources(resources[name], of)
	}
	r.t.Resources = resources
	r.resolveStacks()
}

// finalName returns the final id of a name. It works after resolveNames.
func (n *names) finalName(name model.NameID) model.NameID {
	if name&pendingBit != 0 {
		return n.pending[name&^pendingBit].name
	}
	return name
}

func unnamedText(f nameForm) string {
	switch f {
	case kernelName:
		return "unnamed kernel"
	case apiName:
		return "unnamed call"
	}
	return "unnamed range"
}
