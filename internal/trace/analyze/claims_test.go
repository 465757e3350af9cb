package analyze

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func TestLedger(t *testing.T) {
	b := newBuilder()
	b.host(model.Step, "ProfilerStep#0", 0, 1000).host(model.Step, "ProfilerStep#1", 1000, 2000)
	b.launch("a", 10, 5, 100, 200)     // dropped step
	b.launch("b", 900, 5, 910, 1100)   // starved [200, 900)
	b.launch("c", 1300, 5, 1400, 1500) // starved [1100, 1300), queued [1300, 1400)
	b.launch("d", 1700, 5, 1700, 1900) // starved [1500, 1700)
	l := b.index(t).NewLedger()
	for i, c := range []struct {
		host bool
		want model.Spans
		got  model.Spans
	}{
		{true, model.Spans{{Start: 0, End: 1000}}, nil},                                                                 // the dropped step
		{true, model.Spans{{Start: 1050, End: 1350}}, model.Spans{{Start: 1100, End: 1300}}},                            // busy and queued time is not starved
		{true, model.Spans{{Start: 1150, End: 1250}}, nil},                                                              // claimed
		{true, model.Spans{{Start: 1200, End: 1600}}, model.Spans{{Start: 1500, End: 1600}}},                            // the rest of it
		{false, model.Spans{{Start: 1450, End: 1800}}, model.Spans{{Start: 1450, End: 1500}, {Start: 1700, End: 1800}}}, // busy time only
		{false, model.Spans{{Start: 1000, End: 3000}}, model.Spans{{Start: 1400, End: 1450}, {Start: 1800, End: 1900}}}, // up to 1100 the device ends the dropped step
		{true, model.Spans{{Start: 0, End: 5000}}, model.Spans{{Start: 1600, End: 1700}}},
		{true, nil, nil},
	} {
		got := l.ClaimGPU
		if c.host {
			got = l.ClaimHost
		}
		if diff := cmp.Diff(c.got, got(0, c.want)); diff != "" {
			t.Errorf("claim %d: %s", i, diff)
		}
	}
	if got := l.ClaimHost(7, model.Spans{{Start: 0, End: 5000}}); got != nil {
		t.Errorf("a device that did nothing granted %v", got)
	}
	if diff := cmp.Diff(model.Spans{{Start: 1100, End: 1300}, {Start: 1400, End: 1900}}, l.Claimed(0)); diff != "" {
		t.Errorf("claimed: %s", diff)
	}
	if got := l.Free(0); len(got) > 0 {
		t.Errorf("free: %v", got)
	}
}

// TestLedgerNeverTwice: whatever is asked for in whatever order, no ns is
// granted twice, none outside the steady part, to the host only starved and
// to the device only busy time, and all that can be granted is.
func TestLedgerNeverTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		tr.Finish()
		x, err := NewIndex(context.Background(), tr)
		if err != nil {
			r.Fatal(err)
		}
		l := x.NewLedger()
		granted := map[int]map[int64]bool{0: {}, 1: {}}
		var host [2]int64
		for range rapid.IntRange(0, 12).Draw(r, "claims") {
			device := rapid.IntRange(0, 1).Draw(r, "device")
			var want []model.Span
			for range rapid.IntRange(0, 4).Draw(r, "spans") {
				from := rapid.Int64Range(-10, 500).Draw(r, "from")
				want = append(want, model.Span{Start: from, End: from + rapid.Int64Range(1, 200).Draw(r, "length")})
			}
			set := model.UnionOf(want)
			ofHost := rapid.Bool().Draw(r, "host")
			got := l.ClaimGPU
			if ofHost {
				got = l.ClaimHost
			}
			out := got(device, set)
			d := x.Device(device)
			for at := int64(-20); at < 720; at++ {
				may := d != nil && set.Contains(at) && x.Steady.Contains(at) && !granted[device][at] &&
					(ofHost && d.Starved.Contains(at) || !ofHost && d.Busy.Contains(at))
				if out.Contains(at) != may {
					r.Fatalf("device %d at %d: granted %v, should be %v", device, at, out.Contains(at), may)
				}
				if may {
					granted[device][at] = true
				}
			}
			if ofHost {
				host[device] += out.Total()
			}
		}
		for _, d := range x.Devices {
			if host[d.Device] > d.Starved.Total() {
				r.Fatalf("device %d: %d ns granted to the host of %d starved", d.Device, host[d.Device], d.Starved.Total())
			}
			if got := l.Claimed(d.Device).Total(); got != int64(len(granted[d.Device])) {
				r.Fatalf("device %d: %d ns claimed, %d granted", d.Device, got, len(granted[d.Device]))
			}
		}
	})
}
