package kineto

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// devicesLast puts the events of devices behind the others, as profilers that write
// one list after the other do.
func devicesLast(t *testing.T, text []byte) []byte {
	t.Helper()
	var doc struct {
		Events []json.RawMessage `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var host, device []json.RawMessage
	for _, e := range doc.Events {
		if s := string(e); strings.Contains(s, `"kernel"`) || strings.Contains(s, `"gpu_mem`) {
			device = append(device, e)
		} else {
			host = append(host, e)
		}
	}
	doc.Events = slices.Concat(host, device)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A recording that is too long for memory is analysed from its beginning: the steps
// that are kept have the times that they have in the whole.
func TestLongRecording(t *testing.T) {
	var b bytes.Buffer
	stats, err := tracetest.Write(&b, tracetest.Options{Steps: 60, Layers: 2, Seed: 3, Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"as recorded": b.Bytes(), "devices last": devicesLast(t, b.Bytes())} {
		steps := func(room int64) (*model.Trace, []analyze.StepSpan) {
			tr, err := read(context.Background(), bytes.NewReader(text), "t", readOptions{parsers: 2, block: 1 << 14, room: room})
			if err != nil {
				t.Fatal(name, err)
			}
			checkSound(t, tr)
			x, err := analyze.NewIndex(context.Background(), tr)
			if err != nil {
				t.Fatal(name, err)
			}
			return tr, x.Steps
		}
		whole, all := steps(0)
		room := int64(stats.Events) * 100
		part, kept := steps(room)
		if whole.Truncated || !part.Truncated || part.Events != stats.Events || part.Rank != whole.Rank {
			t.Errorf("%s: truncated %v and %v, %d events", name, whole.Truncated, part.Truncated, part.Events)
		}
		if w := part.Warnings[len(part.Warnings)-1]; w.Code != "truncated" || !strings.Contains(w.Fix, "GPUPROF_MEMORY=") {
			t.Errorf("%s: %v", name, part.Warnings)
		}
		if len(kept) < 5 || len(kept) >= len(all) {
			t.Fatalf("%s: %d of %d steps are kept", name, len(kept), len(all))
		}
		for i, s := range kept {
			if s.Window != all[i].Window || s.Name != all[i].Name || s.Full != all[i].Full {
				t.Errorf("%s: step %d is %+v, in the whole %+v", name, i, s, all[i])
			}
		}
		if used := int64(len(part.Host))*model.HostBytes + int64(len(part.GPU))*model.GPUBytes; used > room {
			t.Errorf("%s: %d bytes of events in room for %d", name, used, room)
		}
	}
}

// Where names take the room reading ends, and says where.
func TestManyNames(t *testing.T) {
	var text strings.Builder
	text.WriteString("[" + op("first", 1))
	for i := range 5000 {
		text.WriteString(",\n" + op(strings.Repeat(string(rune('a'+i%26)), 200+i), 20+i))
	}
	tr, err := read(context.Background(), strings.NewReader(text.String()), "t", readOptions{parsers: 1, block: 1 << 14, room: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if !tr.Truncated || len(tr.Host) == 0 || len(tr.Names) > 2000 {
		t.Errorf("truncated %v, %d events, %d names", tr.Truncated, len(tr.Host), len(tr.Names))
	}
}
