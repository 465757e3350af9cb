package gridsim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// plans are settings whose steps differ in operations or chunks.
var plans = []string{
	"impl=gemm", "impl=split,chunk=5", "impl=gemm,chunk=1,layout=hwc", "law=diffuse,impl=split,chunk=4", "law=walk,impl=split,chunk=7",
	"normalise=off,impl=split,chunk=3", "impl=fused", "law=walk", "law=diffuse",
}

// An operation states the blocks that its launch has as arguments, from which lives are derived.
func TestOperationsStateTheirArguments(t *testing.T) {
	for _, set := range plans {
		for i, o := range openSession(t, tinyGrid(set)...).ops {
			var launched []blockID
			for _, r := range o.Refs {
				launched = append(launched, blockID(r.Block))
			}
			stated := o.blocks()
			slices.Sort(stated)
			slices.Sort(launched)
			if !slices.Equal(slices.Compact(stated), slices.Compact(launched)) {
				t.Errorf("%s: operation %d %s states blocks %v, its launch has %v", set, i, o.name, stated, launched)
			}
		}
	}
}

// A chunk's blocks are taken and given within the chunk, and the law leaves no block but the next state.
func TestLivesEndWithTheirChunk(t *testing.T) {
	for _, set := range plans {
		s := openSession(t, tinyGrid(set)...)
		held := map[blockID]bool{bState: true}
		for i, o := range s.ops {
			for _, id := range o.take {
				if held[id] {
					t.Errorf("%s: operation %d %s takes a held block, %s", set, i, o.name, blockNames[id])
				}
				held[id] = true
			}
			for _, id := range o.blocks() {
				if !held[id] {
					t.Errorf("%s: operation %d %s uses %s, which it does not hold", set, i, o.name, blockNames[id])
				}
			}
			for _, id := range o.give {
				delete(held, id)
			}
			ends := i+1 == len(s.ops)
			for id := range held {
				if id != bState && id != bNext && (ends || !id.isWholeGrid() && s.ops[i+1].first != o.first) {
					t.Errorf("%s: %s is held after the last operation of its chunk, %d %s", set, blockNames[id], i, o.name)
				}
			}
		}
	}
}

// If a block were given before the operation that reads it, the next block would take its memory, and the check fails.
func TestEarlyGivesFail(t *testing.T) {
	for _, set := range []string{"impl=gemm", "impl=split,chunk=5", "law=walk,impl=split", "law=diffuse,impl=split"} {
		for _, allocator := range []string{"pool", "driver"} {
			t.Run(set+" "+allocator, func(t *testing.T) {
				s, err := newSession(openHost(t, host.Options{}), resolve(t, "small", append(tinyGrid(set), "hidden=8", "allocator="+allocator)...))
				if err != nil {
					t.Fatal(err)
				}
				written := slices.Clone(s.ops) // without the operations' inputs a block's last use is the write
				for i := range written {
					written[i].in, written[i].take, written[i].give = nil, nil, nil
				}
				deriveLives(written)
				for i := range s.ops {
					s.ops[i].take, s.ops[i].give = written[i].take, written[i].give
				}
				if err = s.startSession(context.Background()); err != nil {
					t.Fatal(err)
				}
				checks, err := s.Check(context.Background())
				failed := err != nil
				for _, c := range checks {
					failed = failed || !c.Pass
				}
				if !failed {
					t.Errorf("every check passes: %+v", checks)
				}
				if err := s.Close(); err != nil && !strings.Contains(err.Error(), "freed") {
					t.Error(err)
				}
			})
		}
	}
}
