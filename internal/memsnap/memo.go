package memsnap

import "errors"

// packed is a value as the memo keeps it.
func packed(v value) uint32 {
	if v.k >= vSpent {
		v = value{k: vSpent}
	}
	return uint32(v.k)<<actionShift | uint32(v.v)&allocMask
}

// put lets later opcodes refer to the value on top of the stack as number at.
func (m *machine) put(at uint64) error {
	n := len(m.stack) - 1
	switch {
	case n < m.bottom():
		return errors.New("it refers to a value that is not there")
	case at > uint64(m.memo.n) || at >= mostIDs:
		return errors.New("it numbers values out of order")
	}
	t := m.stack[n]
	if t.k == vOpen {
		m.open[t.v].memo = int(at)
	}
	if at < uint64(m.memo.n) {
		m.renumber(int(at), packed(t))
		return nil
	}
	w := packed(t)
	grown := m.memo.push(w)
	if grown {
		m.spent = append(m.spent, 0)
	}
	if w == spentWord {
		m.spend(len(m.spent) - 1)
	}
	if grown {
		return m.take(4 * chunk)
	}
	return nil
}

// spend counts an entry of a chunk that nothing can refer to again.
func (m *machine) spend(k int) {
	if m.spent[k]++; m.spent[k] == chunk {
		m.memo.chunks[k] = nil
		m.room += 4 * chunk
	}
}

// spentWord is the entry of what cannot be referred to again.
const spentWord = uint32(vSpent) << actionShift

// renumber changes what a number refers to. A chunk in which nothing can be referred to
// again, as events and blocks never are, is given up: Python numbers each of them.
func (m *machine) renumber(at int, w uint32) {
	k := at / chunk
	if m.memo.chunks[k] == nil {
		if w == spentWord {
			return
		}
		m.memo.chunks[k] = make([]uint32, chunk)
		for i := range m.memo.chunks[k] {
			m.memo.chunks[k][i] = spentWord
		}
		m.room -= 4 * chunk
	}
	old := m.memo.at(at)
	if *old == w {
		return
	}
	if *old == spentWord {
		m.spent[k]--
	}
	if *old = w; w == spentWord {
		m.spend(k)
	}
}

// numberedAt is what a number refers to.
func (m *machine) numberedAt(at int) uint32 {
	if c := m.memo.chunks[at/chunk]; c != nil {
		return c[at%chunk]
	}
	return spentWord
}

// get puts a value that was numbered on the stack again.
func (m *machine) get(at uint64) error {
	if at >= uint64(m.memo.n) {
		return errors.New("it refers to a value that comes later")
	}
	w := m.numberedAt(int(at))
	v := value{kindOf(w >> actionShift), uint64(w & allocMask)}
	if v.k == vOpen { // complete, as nothing can be added to it from now on
		var err error
		if v, err = m.settleAt(m.open[v.v].at, v); err != nil {
			return err
		}
	}
	if v.k >= vSpent {
		return errors.New("it refers to an event, a block or a segment a second time, and no snapshot does")
	}
	m.stack = append(m.stack, v)
	return nil
}

// again puts a text or a stack that was numbered on the stack, if that is what the file
// refers to next: three of five opcodes do nothing else. All other cases are get's.
func (m *machine) again() bool {
	if m.in.p == m.in.e {
		return false
	}
	at := int(m.in.buf[m.in.p])
	if at >= m.memo.n {
		return false
	}
	w := m.numberedAt(at)
	if k := kindOf(w >> actionShift); k == vText || k == vStack {
		m.in.p++
		m.stack = append(m.stack, value{k, uint64(w & allocMask)})
		return true
	}
	return false
}

// settleAt completes an open container that stands on the stack.
func (m *machine) settleAt(at int, v value) (value, error) {
	if at >= len(m.stack) || m.stack[at] != v {
		return value{}, errors.New("it refers to a container that holds itself, and no snapshot has such a one")
	}
	v, err := m.settled(v)
	m.stack[at] = v
	return v, err
}
