package memsnap

import "errors"

func packValue(v value) uint32 {
	if v.k >= vSpent {
		v = value{k: vSpent}
	}
	return uint32(v.k)<<actionShift | uint32(v.v)&allocMask
}

// put stores the top of the stack as a memo entry.
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
		m.renumber(int(at), packValue(t))
		return nil
	}
	w := packValue(t)
	grown := m.memo.push(w)
	if grown {
		m.spent = append(m.spent, 0)
	}
	if w == spentWord {
		m.countSpent(len(m.spent) - 1)
	}
	if grown {
		return m.countMemory(4 * chunk)
	}
	return nil
}

// countSpent counts a memo entry of chunk k to which no opcode may refer again (spent), and frees the chunk if all its
// entries are spent.
func (m *machine) countSpent(k int) {
	if m.spent[k]++; m.spent[k] == chunk {
		m.memo.chunks[k] = nil
		m.room += 4 * chunk
	}
}

// spentWord is the memo entry of a value to which no opcode may refer again.
const spentWord = uint32(vSpent) << actionShift

// renumber changes a memo entry, and frees its chunk if all entries of the chunk are spent. There are many spent
// entries, because Python also stores events, to which no opcode refers.
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
	old := m.memo.get(at)
	if *old == w {
		return
	}
	if *old == spentWord {
		m.spent[k]--
	}
	if *old = w; w == spentWord {
		m.countSpent(k)
	}
}

func (m *machine) memoEntry(at int) uint32 {
	if c := m.memo.chunks[at/chunk]; c != nil {
		return c[at%chunk]
	}
	return spentWord
}

func (m *machine) get(at uint64) error {
	if at >= uint64(m.memo.n) {
		return errors.New("it refers to a value that comes later")
	}
	w := m.memoEntry(int(at))
	v := value{valueKind(w >> actionShift), uint64(w & allocMask)}
	if v.k == vOpen { // complete: values are added before the first reference only
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

// pushKnown is get for the most frequent values, texts and stacks. It returns false for others.
func (m *machine) pushKnown() bool {
	if m.in.p == m.in.e {
		return false
	}
	at := int(m.in.buf[m.in.p])
	if at >= m.memo.n {
		return false
	}
	w := m.memoEntry(at)
	if k := valueKind(w >> actionShift); k == vText || k == vStack {
		m.in.p++
		m.stack = append(m.stack, value{k, uint64(w & allocMask)})
		return true
	}
	return false
}

// settleAt completes an open container on the stack.
func (m *machine) settleAt(at int, v value) (value, error) {
	if at >= len(m.stack) || m.stack[at] != v {
		return value{}, errors.New("it refers to a container that holds itself, and no snapshot has such a one")
	}
	v, err := m.settleValue(v)
	m.stack[at] = v
	return v, err
}
