package kineto

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// described reads what the document says around its events: ranks, and the
// devices of the machine. Devices that only events name come too.
func (m *merger) described() {
	t := m.t
	w := walker{}
	w.object(m.doc.found["distributedInfo"], func(key string, raw []byte) {
		v, ok := decimal(trimmed(raw), 0)
		if !ok || v < 0 || v > math.MaxInt32 {
			return
		}
		switch key {
		case "rank":
			t.Rank = int(v)
		case "world_size":
			t.World = int(v)
		}
	})
	at := map[int]int{} // devices by id
	add := func(d model.Device) {
		if _, ok := at[d.ID]; !ok {
			at[d.ID] = 0
			t.Devices = append(t.Devices, d)
		}
	}
	w.elements(m.doc.found["deviceProperties"], func(raw []byte) {
		if d, ok := w.device(raw); ok {
			add(d)
		}
	})
	for _, id := range m.devices {
		add(model.Device{ID: id})
	}
	slices.SortStableFunc(t.Devices, func(a, b model.Device) int { return cmp.Compare(a.ID, b.ID) })
	for i := range t.Devices {
		at[t.Devices[i].ID] = i
	}
	m.place = make([]uint16, len(m.devices))
	for slot, id := range m.devices {
		m.place[slot] = uint16(min(at[id], math.MaxUint16))
	}
}

// walker goes over small captured values with the scanner of events.
type walker struct{ p parser }

func (w *walker) device(raw []byte) (model.Device, bool) {
	d := model.Device{ID: -1}
	w.object(raw, func(key string, raw []byte) {
		raw = trimmed(raw)
		if key == "name" {
			d.Name = decode(raw)
			return
		}
		v, ok := decimal(raw, 0)
		if !ok || v < 0 {
			return
		}
		small := int(min(v, math.MaxInt32))
		switch key {
		case "id":
			d.ID = small
		case "computeMajor":
			d.Major = small
		case "computeMinor":
			d.Minor = small
		case "numSms", "multiProcessorCount":
			d.SMs = small
		case "totalGlobalMem":
			d.TotalBytes = v
		}
	})
	return d, d.ID >= 0
}

// set makes raw the walker's window and returns the place of its first token.
func (w *walker) set(raw []byte) int {
	n := len(raw)
	w.p.b, w.p.n = fit(slices.Clone(raw), n), n
	seal(w.p.b, n)
	return space(w.p.b, 0)
}

// object calls f with the members of an object; it stops where it is none.
func (w *walker) object(raw []byte, f func(key string, raw []byte)) {
	i := w.set(raw)
	b, n := w.p.b, w.p.n
	if b[i] != '{' {
		return
	}
	for i++; i < n; i++ {
		if i = space(b, i); b[i] != '"' {
			return
		}
		q := w.p.stringEnd(i+1, key)
		if q >= n {
			return
		}
		j := space(b, q+1)
		if b[j] != ':' {
			return
		}
		j = space(b, j+1)
		end := w.p.skip(j, member)
		if end < 0 {
			return
		}
		name := decode(b[i+1 : q])
		f(name, b[j:end])
		if i = space(b, end); b[i] != ',' {
			return
		}
	}
}

// elements calls f with the elements of an array.
func (w *walker) elements(raw []byte, f func(raw []byte)) {
	i := w.set(raw)
	b, n := w.p.b, w.p.n
	if b[i] != '[' {
		return
	}
	for i++; i < n; i++ {
		i = space(b, i)
		w.p.b, w.p.n = b, n // f may have moved the walker
		end := w.p.skip(i, element)
		if end < 0 {
			return
		}
		f(b[i:end])
		if i = space(b, end); b[i] != ',' {
			return
		}
	}
}

// trimmed is a scalar without white space and quotation marks.
func trimmed(raw []byte) []byte {
	for len(raw) > 0 && raw[0] <= ' ' {
		raw = raw[1:]
	}
	for len(raw) > 0 && raw[len(raw)-1] <= ' ' {
		raw = raw[:len(raw)-1]
	}
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	return raw
}
