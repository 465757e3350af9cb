package kineto

import "hash/maphash"

// interner numbers byte strings. Numbering a known string costs a hash and a comparison, and allocates nothing.
type interner struct {
	seed  maphash.Seed
	slots []slot // length is a power of two
	keys  []string
}

type slot struct {
	hash uint64
	id   uint32 // number plus one
}

func newInterner() interner {
	return interner{seed: maphash.MakeSeed(), slots: make([]slot, 1<<10)}
}

// numberOf returns the number of s, and whether s is new.
func (t *interner) numberOf(s []byte) (uint32, bool) {
	h := maphash.Bytes(t.seed, s)
	mask := uint64(len(t.slots) - 1)
	i := h & mask
	for ; t.slots[i].id != 0; i = (i + 1) & mask {
		if t.slots[i].hash == h && t.keys[t.slots[i].id-1] == string(s) {
			return t.slots[i].id - 1, false
		}
	}
	t.keys = append(t.keys, string(s))
	id := uint32(len(t.keys))
	t.slots[i] = slot{h, id}
	if 2*len(t.keys) > len(t.slots) {
		t.growTable()
	}
	return id - 1, true
}

func (t *interner) growTable() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.hash & mask
		for ; t.slots[i].id != 0; i = (i + 1) & mask {
		}
		t.slots[i] = s
	}
}
