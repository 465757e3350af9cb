package memsnap

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// operandSize returns the bytes of an opcode's operand, or of the operand's length.
func operandSize(op byte) (n int, known bool) {
	switch op {
	case opTrue, opFalse, 'N', opMemoize:
		return 0, true
	case opProto, 'K', opText1, opLong1, 'q', 'h':
		return 1, true
	case 'M':
		return 2, true
	case 'J', 'X', opLong4, 'r', 'j':
		return 4, true
	case opFrame, opFraction, opText8:
		return 8, true
	}
	return 0, false
}

// pushScalar executes the opcodes that push a single value, not a container.
func (m *machine) pushScalar(op byte) error {
	n, known := operandSize(op)
	if !known {
		return refuseOpcode(op)
	}
	x, err := m.in.readNumber(n)
	if err != nil {
		return err
	}
	switch op {
	case opProto:
		if x < 2 || x > 5 {
			return fmt.Errorf("the pickle has protocol %d, and snapshots have 2 to 5", x)
		}
		m.s.Protocol = int(x)
	case opFrame: // its length is not needed
	case 'N':
		m.push(vNone, 0)
	case opTrue, opFalse:
		m.push(vTruth, uint64(opFalse-op))
	case 'K', 'M':
		m.push(vNumber, x)
	case 'J':
		m.push(vNumber, uint64(int64(int32(uint32(x)))))
	case opFraction:
		m.push(vFraction, bits.ReverseBytes64(x))
	case opLong1, opLong4:
		return m.pushInteger(x)
	default:
		return m.pushText(x)
	}
	return nil
}

// pushInteger reads an integer of n bytes; the ninth byte of an address is its sign.
func (m *machine) pushInteger(n uint64) error {
	if n > longestWhole {
		return fmt.Errorf("an integer has %d bytes, and no address or size has more than %d", n, longestWhole)
	}
	x, err := m.in.readNumber(int(min(n, 8)))
	if err == nil && n > 8 {
		_, err = m.in.readNumber(1)
	}
	if err != nil {
		return err
	}
	if 0 < n && n < 8 && x>>(8*n-1) != 0 {
		x |= math.MaxUint64 << (8 * n)
	}
	m.push(vNumber, x)
	return nil
}

func (m *machine) pushText(n uint64) error {
	if n > longestText {
		return fmt.Errorf("a string has %d bytes, and no name or path has more than %d", n, longestText)
	}
	b, err := m.in.readBytes(int(n))
	if err != nil {
		return err
	}
	id, err := m.internText(b)
	m.push(vText, uint64(id))
	return err
}

func (m *machine) executeMemo(op byte) error {
	n := 1
	if op == 'r' || op == 'j' {
		n = 4
	}
	at, err := m.in.readNumber(n)
	if err != nil {
		return err
	}
	if op == 'q' || op == 'r' {
		return m.put(at)
	}
	return m.get(at)
}

func refuseOpcode(op byte) error {
	if name := codeOpcodes()[op]; name != "" {
		return fmt.Errorf("the opcode %s makes a pickle run code, which no snapshot does, and nothing of it was run", name)
	}
	return fmt.Errorf("the opcode %#02x is none that snapshots consist of", op)
}

// codeOpcodes names the opcodes by which a pickle runs code in other readers.
func codeOpcodes() map[byte]string {
	return map[byte]string{
		'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'i': "INST", 'R': "REDUCE", 'b': "BUILD", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 'o': "OBJ",
		0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 'P': "PERSID", 'Q': "BINPERSID",
	}
}

func (m *machine) internText(b []byte) (uint32, error) {
	if id, ok := m.ids[string(b)]; ok {
		return id, nil
	}
	id := uint32(len(m.s.texts))
	if id >= mostIDs {
		return 0, errors.New("it has too many different strings")
	}
	s := string(b)
	m.ids[s] = id
	m.s.texts = append(m.s.texts, s)
	m.key = append(m.key, m.keys[s])
	m.action = append(m.action, m.actions[s])
	return id, m.countMemory(len(s) + 80)
}
