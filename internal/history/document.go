package history

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Decode reads a document of gpuprof history. name is its file, for errors, which are ErrInput.
func Decode(text []byte, name string) (*Report, error) {
	r := &Report{}
	if err := document.Decode(text, name, r, document.History); err != nil {
		return nil, err
	}
	for i := range r.Trends {
		if !r.Trends[i].isConsistent() {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: the metrics of %q do not fit its sessions", name, r.Trends[i].Benchmark).WithFix("write it again with gpuprof history -o FILE.json")
		}
	}
	return r, nil
}

func (t *Trend) isConsistent() bool {
	n := len(t.Sessions)
	ok := n > 0 && len(t.Classes) > 0
	span := func(first, last int) { ok = ok && first >= 0 && first <= last && last < n }
	for _, c := range t.Classes {
		span(c.First, c.Last)
	}
	for _, m := range append([]Metric{t.Sentinel}, t.Metrics...) {
		ok = ok && (len(m.Values) == n || len(m.Values) == 0)
		for _, l := range m.Levels {
			span(l.First, l.Last)
		}
		for _, c := range m.Changes {
			span(c.At, c.At)
			ok = ok && c.At > 0
		}
		for _, a := range m.Alarms {
			span(a.At, a.At)
			ok = ok && a.At > 0
		}
	}
	return ok
}
