package kineto

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// readDescription reads ranks, devices and the number of CPUs from the document around the events. It adds the devices
// that only events name.
func (m *merger) readDescription() {
	t := m.t
	w := walker{}
	w.eachMember(m.doc.found["distributedInfo"], func(key string, raw []byte) {
		v, ok := parseDecimal(trimScalar(raw), 0)
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
	if v, ok := parseDecimal(trimScalar(m.doc.found["gpuprof_cpus"]), 0); ok && v > 0 && v <= math.MaxInt32 {
		t.Program.CPUs = int(v) // written by gpuprof's hook
	}
	at := map[int]int{} // by id
	add := func(d model.Device) {
		if _, ok := at[d.ID]; !ok {
			at[d.ID] = 0
			t.Devices = append(t.Devices, d)
		}
	}
	w.eachElement(m.doc.found["deviceProperties"], func(raw []byte) {
		if d, ok := w.parseDevice(raw); ok {
			add(d)
		}
	})
	if len(t.Devices) == 1 && len(m.devices) == 1 {
		// A single device. In ROCm's events its number differs, because they number CPUs too.
		delete(at, t.Devices[0].ID)
		t.Devices[0].ID = m.devices[0]
		at[m.devices[0]] = 0
	}
	for _, id := range m.devices {
		add(model.Device{ID: id})
	}
	slices.SortStableFunc(t.Devices, func(a, b model.Device) int { return cmp.Compare(a.ID, b.ID) })
	for i := range t.Devices {
		at[t.Devices[i].ID] = i
	}
	m.deviceIndex = make([]uint16, len(m.devices))
	for slot, id := range m.devices {
		m.deviceIndex[slot] = uint16(min(at[id], math.MaxUint16))
	}
}

// walker walks small captured JSON values with the parser.
type walker struct{ p parser }

func (w *walker) parseDevice(raw []byte) (model.Device, bool) {
	d := model.Device{ID: -1}
	w.eachMember(raw, func(key string, raw []byte) {
		raw = trimScalar(raw)
		if key == "name" {
			d.Name = decodeString(raw)
			return
		}
		v, ok := parseDecimal(raw, 0)
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

// setText makes raw the text of the parser, and returns the index of its first token.
func (w *walker) setText(raw []byte) int {
	n := len(raw)
	w.p.b, w.p.n = growBuffer(slices.Clone(raw), n), n
	writePadding(w.p.b, n)
	return skipSpace(w.p.b, 0)
}

// eachMember calls f with the members of an object, until one is malformed.
func (w *walker) eachMember(raw []byte, f func(key string, raw []byte)) {
	i := w.setText(raw)
	b, n := w.p.b, w.p.n
	if b[i] != '{' {
		return
	}
	for i++; i < n; i++ {
		if i = skipSpace(b, i); b[i] != '"' {
			return
		}
		q := w.p.stringEnd(i+1, key)
		if q >= n {
			return
		}
		j := skipSpace(b, q+1)
		if b[j] != ':' {
			return
		}
		j = skipSpace(b, j+1)
		end := w.p.skipValue(j, member)
		if end < 0 {
			return
		}
		name := decodeString(b[i+1 : q])
		f(name, b[j:end])
		if i = skipSpace(b, end); b[i] != ',' {
			return
		}
	}
}

func (w *walker) eachElement(raw []byte, f func(raw []byte)) {
	i := w.setText(raw)
	b, n := w.p.b, w.p.n
	if b[i] != '[' {
		return
	}
	for i++; i < n; i++ {
		i = skipSpace(b, i)
		w.p.b, w.p.n = b, n // f may have changed the parser's text
		end := w.p.skipValue(i, element)
		if end < 0 {
			return
		}
		f(b[i:end])
		if i = skipSpace(b, end); b[i] != ',' {
			return
		}
	}
}

func trimScalar(raw []byte) []byte {
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
