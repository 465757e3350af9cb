package memsnap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Limits of a snapshot, far above real ones.
const (
	longestText  = 1 << 20 // bytes of one string
	deepest      = 64      // nested containers
	mostOpen     = 1 << 14 // incomplete containers
	tallest      = 1 << 20 // values on the stack
	mostIDs      = 1 << 28 // strings, frames, stacks, events of one device …
	longestWhole = 9       // bytes of an integer: an unsigned 64-bit address and a sign
)

// fixRecord is the fix for an incomplete snapshot.
const fixRecord = "record one with torch.cuda.memory._dump_snapshot (docs/memory.md)"

// IsPickle reports whether a text that begins with head is a pickle of a protocol that snapshots use.
func IsPickle(head []byte) bool {
	return len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && (head[2] == '}' || head[2] == ']' || head[2] == opFrame)
}

// Read reads one snapshot: a pickle of Python (protocol 2 to 5) or PyTorch. It refuses opcodes that call code. r is
// the decompressed stream, path is for messages, room is the memory limit in bytes (0: outside.TraceMemory). A file
// stores the final state before the trace. From a truncated file Read returns only that state and sets Truncated.
// Errors are gpuprof.ErrInput, or the context's.
func Read(ctx context.Context, r io.Reader, path string, room int64) (*Snapshot, error) {
	if room <= 0 {
		room = outside.TraceMemory()
	}
	m := newMachine(ctx, r, room)
	err := m.run()
	if outside.Damaged(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		if err = m.salvage(); err == nil {
			m.s.Truncated = true
		}
	}
	if ended := context.Cause(ctx); ended != nil {
		return nil, fmt.Errorf("reading memory snapshot %s: %w", path, ended)
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		return nil, readError(path, err)
	}
	m.s.Path = path
	document.CleanStrings(&m.s.texts)
	document.CleanStrings(&m.s.Notes)
	document.CleanStrings(&m.s.Settings)
	return m.s, nil
}

func readError(path string, err error) error {
	doing := "reading memory snapshot " + path
	if _, large := errors.AsType[*outside.TooLarge](err); large {
		return gpuprof.Unreadable(doing, err, "")
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "%s: %w", doing, err).WithFix(fixRecord)
}

// salvage finds the segments of a truncated file: the first member of the root.
func (m *machine) salvage() error {
	const cut = "the file ends early, before the segments are complete"
	top := len(m.stack) // after the root's members
	if len(m.marks) > 1 {
		top = m.marks[1]
	}
	if top < 4 || len(m.marks) == 0 || m.marks[0] != 1 || m.stack[0].k != vOpen || !m.open[m.stack[0].v].dict {
		return errors.New(cut)
	}
	for i := 1; i+2 < top; i += 2 {
		if m.stack[i].k == vText && m.stack[i+2].k == vText && m.key[m.stack[i].v] == kSegments {
			return m.setSegments(m.stack[i+1])
		}
	}
	return errors.New(cut)
}

// finish completes the tables. It drops the trace of a truncated file: a replay undoes events from the final state, so
// it needs the last ones.
func (m *machine) finish() error {
	s := m.s
	if !m.root {
		return errors.New("the pickle holds no snapshot: there are no segments at its root")
	}
	if s.Truncated {
		s.traces = nil
		s.Notes = nil
	}
	if !s.pooled {
		m.placePools()
	}
	last := uint32(0)
	for i := range s.blocks {
		s.blocks[i].from = m.internOrigin(origin{stack: s.blocks[i].stack}, &last)
	}
	s.stackAt = append(s.stackAt, uint32(len(s.stackID)))
	s.Bytes = m.in.offset()
	return nil
}
