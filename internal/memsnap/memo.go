package memsnap

import "errors"

// packed is a value as the memo keeps it.
func packed(v value) uint32 {
	if v.k > vSpent {
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
		*m.memo.at(int(at)) = packed(t)
		return nil
	}
	if m.memo.push(packed(t)) {
		return m.take(4 * chunk)
	}
	return nil
}

// get puts a value that was numbered on the stack again.
func (m *machine) get(at uint64) error {
	if at >= uint64(m.memo.n) {
		return errors.New("it refers to a value that comes later")
	}
	w := *m.memo.at(int(at))
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
	w := m.memo.chunks[0][at]
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
