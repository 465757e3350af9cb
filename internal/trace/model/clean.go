package model

import "github.com/gpuprof/gpuprof/internal/document"

// cleanTexts makes all texts printable. Names that become equal are merged, because equal names have equal ids.
func (t *Trace) cleanTexts() {
	names, merge := t.Names, false
	for i, name := range names {
		if clean := document.CleanText(name); clean != name {
			names[i], merge = clean, true
		}
	}
	t.Names = nil // frees the old names, which are most of the text
	document.CleanStrings(t)
	if t.Names = names; merge {
		t.mergeNames()
	}
}

func (t *Trace) mergeNames() {
	first, to := map[string]NameID{}, make([]NameID, len(t.Names))
	for i, name := range t.Names {
		id, ok := first[name]
		if !ok {
			id = NameID(i)
			first[name] = id
		}
		to[i] = id
	}
	for i := range t.Host {
		if id := &t.Host[i].Name; int(*id) < len(to) {
			*id = to[*id]
		}
	}
	for i := range t.GPU {
		if id := &t.GPU[i].Name; int(*id) < len(to) {
			*id = to[*id]
		}
	}
}
