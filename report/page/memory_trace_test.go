package page

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// The allocations of a page that live at the peak add up to the table's categories, and those left out are counted.
func TestAllocationsAddUpAtThePeak(t *testing.T) {
	for _, name := range []string{"clean.pickle.gz", "leak.pickle.gz", "late.pickle.gz", "oom.pickle.gz", "expandable.pickle.gz", "two-streams.pickle.gz"} {
		a := fixture.Memory(t, name)
		d := &a.Devices[0]
		data, ok := memoryTrace(d).(*memoryTraceData)
		if !ok {
			t.Fatalf("%s: no allocations", name)
		}
		if data.Others > 0 {
			t.Fatalf("%s: %d allocations are left out, the fixture is too large for this test", name, data.Others)
		}
		held := map[string]int64{}
		for i, born := 0, int64(0); i < len(data.Lives); i += 5 {
			born += data.Lives[i]
			if at := int64(d.Peak.Event); born <= at && at < born+data.Lives[i+1] {
				held[data.Kinds[data.Lives[i+3]]] += data.Lives[i+2]
			}
			if stack := data.Lives[i+4]; stack < 0 || int(stack) > len(data.Stacks) {
				t.Fatalf("%s: stack %d of %d", name, stack, len(data.Stacks))
			}
		}
		for _, c := range d.Peak.Categories {
			if held[c.Category] != c.Bytes {
				t.Errorf("%s: %d bytes of %s at the peak, the table has %d", name, held[c.Category], c.Category, c.Bytes)
			}
		}
	}
}

// A page has the largest allocations; number and bytes of the others are kept.
func TestLargestAllocations(t *testing.T) {
	a := fixture.Memory(t, "leak.pickle.gz")
	all, none, _ := a.Devices[0].Lives(1_000_000)
	some, others, bytes := a.Devices[0].Lives(10)
	if none != 0 || len(some) != 10 || len(some)+others != len(all) {
		t.Fatalf("%d and %d of %d allocations", len(some), others, len(all))
	}
	var whole, kept int64
	least := int64(1) << 62
	for _, l := range all {
		whole += l.Bytes
	}
	for _, l := range some {
		kept, least = kept+l.Bytes, min(least, l.Bytes)
	}
	if kept+bytes != whole {
		t.Errorf("%d and %d bytes of %d", kept, bytes, whole)
	}
	larger := 0
	for _, l := range all {
		if l.Bytes > least {
			larger++
		}
	}
	if larger > 10 {
		t.Errorf("%d allocations are larger than the least that was kept", larger)
	}
	if got, n, b := new(memsnap.Device).Lives(10); got != nil || n != 0 || b != 0 {
		t.Errorf("an analysis from a file has %v", got)
	}
}
