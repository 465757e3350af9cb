package nsys

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// maxFrames limits a stack to its innermost frames.
const maxFrames = 128

// stacks holds the call stacks of API calls. Until resolveStacks, Host.Stack is an index into frames plus one.
type stacks struct {
	slot   map[int64]uint32
	frames [][]frame
	bytes  int64 // memory of frames and texts
}

type frame struct{ depth, symbol int64 }

func newStacks() stacks { return stacks{slot: map[int64]uint32{}} }

// slotOf returns the slot of a call chain plus one.
func (s *stacks) slotOf(id int64) uint32 {
	if i, ok := s.slot[id]; ok {
		return i
	}
	s.frames = append(s.frames, nil)
	i := uint32(len(s.frames))
	s.slot[id] = i
	s.bytes += stackBytes
	return i
}

// readCallchains reads the stacks of calls (--cudabacktrace).
func (r *reader) readCallchains(ctx context.Context, table string, c columns) error {
	if !c.hasAll("id", "symbol") {
		return nil
	}
	sel := []string{c.firstColumn("id"), c.firstColumn("symbol"), c.firstColumn("stackDepth")}
	return r.queryRows(ctx, "SELECT "+joinColumns(sel)+" FROM "+r.quotedTable(table), 3, func(v []any) {
		id, ok := parseInteger(v[0])
		i, used := r.stacks.slot[id]
		if !ok || !used {
			return
		}
		depth, ok := parseInteger(v[2])
		if !ok {
			depth = int64(len(r.stacks.frames[i-1]))
		}
		if depth < maxFrames && len(r.stacks.frames[i-1]) < maxFrames && !r.room.Over(r.usedBytes()) {
			r.stacks.bytes += frameBytes
			r.stacks.frames[i-1] = append(r.stacks.frames[i-1], frame{depth, r.names.requestString(v[1])})
		}
	})
}

// resolveStacks stores the stacks as text. Equal stacks get one id.
func (r *reader) resolveStacks() {
	byText := map[string]uint32{}
	final := make([]uint32, len(r.stacks.frames)+1)
	for i, frames := range r.stacks.frames {
		// Depth 0 is the call itself. The text starts with the outermost frame.
		slices.SortFunc(frames, func(a, b frame) int { return cmp.Compare(b.depth, a.depth) })
		var parts []string
		for _, f := range frames {
			if s := r.names.found[f.symbol]; s != "" {
				parts = append(parts, strings.ReplaceAll(s, ";", ","))
			}
		}
		if len(parts) == 0 {
			continue
		}
		s := strings.Join(parts, ";")
		if _, ok := byText[s]; !ok {
			r.t.Stacks = append(r.t.Stacks, s)
			byText[s] = uint32(len(r.t.Stacks))
		}
		final[i+1] = byText[s]
	}
	for _, hs := range [][]model.Host{r.t.Host, r.loose} {
		for i := range hs {
			hs[i].Stack = final[hs[i].Stack]
		}
	}
}
