package devicetest

import (
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// slack covers the resolution of GPU events, documented as about 0.5 us, and
// two clocks that drift by up to 100 ppm over a check of some milliseconds.
const slack = 5 * time.Microsecond

func checkEventTimes(l *lab) {
	y := l.newBuffer(1)
	begin := time.Now()
	e0 := l.record(l.main)
	l.launch(l.main, "chain", 1, y, 1)
	e1 := l.record(l.main)
	g := l.holdStream(l.main)
	e2 := l.record(l.main)
	g.waitStarted()
	held := time.Now()
	time.Sleep(2 * time.Millisecond) // something to measure; nothing depends on its length
	least := time.Since(held)        // the kernel ran at least this long
	g.open()
	l.launch(l.main, "chain", 1, y, 1)
	e3 := l.record(l.main)
	l.ok(l.main.Sync())
	most := time.Since(begin)

	events := []device.Event{e0, e1, e2, e3}
	for i, from := range events {
		for j := i; j < len(events); j++ {
			ns := l.elapsed(from, events[j])
			if ns < 0 || i == j && ns != 0 {
				l.t.Errorf("from event %d to %d: %d ns", i, j, ns)
			}
			if outer := l.elapsed(e0, e3); ns > outer+int64(slack) {
				l.t.Errorf("from event %d to %d: %d ns, inside %d ns", i, j, ns, outer)
			}
		}
	}
	if got := time.Duration(l.elapsed(e1, e2)); got < least-slack || got > most+slack {
		l.t.Errorf("a kernel that ran for %v to %v was timed at %v", least, most, got)
	}
	if sum, all := l.elapsed(e0, e1)+l.elapsed(e1, e3), l.elapsed(e0, e3); sum-all > int64(slack) || all-sum > int64(slack) {
		l.t.Errorf("two parts of %d ns together are %d ns", all, sum)
	}
}

func checkEventAgain(l *lab) {
	first, e := l.event(), l.event()
	l.ok(l.main.Record(first))
	l.ok(l.main.Record(e))
	l.ok(l.main.Sync())
	before := l.elapsed(first, e)
	g := l.holdStream(l.main)
	l.ok(l.main.Record(e))
	g.waitStarted()
	if l.isDone(e) {
		l.t.Error("an event recorded again still shows its first record")
	}
	_, err := l.dev.ElapsedNS(first, e)
	l.wantError(err, "event")
	time.Sleep(time.Millisecond)
	g.open()
	l.ok(e.Wait())
	if after := l.elapsed(first, e); after < before+int64(time.Millisecond-slack) {
		l.t.Errorf("recorded again over 1 ms later: %d ns, was %d ns", after, before)
	}

	// On another stream while the first record is still queued: the later
	// call counts.
	side := l.stream("side")
	g = l.holdStream(l.main)
	l.ok(l.main.Record(e))
	l.ok(side.Record(e))
	l.ok(e.Wait())
	inside := l.elapsed(first, e)
	g.open()
	l.ok(l.main.Sync())
	if after := l.elapsed(first, e); after != inside {
		l.t.Errorf("an older record moved an event from %d to %d ns", inside, after)
	}
}

func checkEventMisuse(l *lab) {
	e, fresh := l.record(l.main), l.event()
	l.ok(e.Wait())
	before := l.dev.Meter()
	l.wantError(fresh.Wait(), "event", "never recorded")
	_, err := fresh.Done()
	l.wantError(err, "event", "never recorded")
	l.wantError(l.main.WaitFor(fresh), "event", "never recorded")
	_, err = l.dev.ElapsedNS(e, fresh)
	l.wantError(err, "event", "never recorded")
	_, err = l.dev.ElapsedNS(fresh, e)
	l.wantError(err, "event", "never recorded")
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("refused calls were counted: %+v", m.Sub(before))
	}
	g := l.holdStream(l.main)
	pending := l.record(l.main)
	_, err = l.dev.ElapsedNS(e, pending)
	l.wantError(err, "event")
	g.open()
	l.ok(l.main.Sync())
	l.elapsed(e, pending)
}

// checkBlockedTime compares the meter with the caller's own clock.
func checkBlockedTime(l *lab) {
	for name, c := range map[string]struct {
		wait func(device.Event) error
		want device.Meter
	}{
		"sync":  {func(device.Event) error { return l.main.Sync() }, device.Meter{SyncPoints: 1}},
		"event": {device.Event.Wait, device.Meter{EventWaits: 1}},
	} {
		// The wait ends after the gate opens, which gives a lower bound of the
		// counted time. A caller that is interrupted before it enters the call
		// can miss this bound, so only one of the tries has to meet it.
		met := false
		for try := 0; try < 20 && !met; try++ {
			m, least, most := l.measureBlocked(c.wait)
			if m.BlockedNS > int64(most) {
				l.t.Errorf("%s: %d ns counted in a call that took %v", name, m.BlockedNS, most)
			}
			met = m.BlockedNS >= int64(least-slack)
			if m.BlockedNS = 0; m != c.want {
				l.t.Errorf("%s: counted %+v", name, m)
			}
		}
		if !met {
			l.t.Errorf("%s: less time counted than the call was blocked", name)
		}
	}
	before := l.dev.Meter()
	e := l.record(l.main)
	l.ok(l.main.WaitFor(e))
	l.waitUntil("the event is done", func() bool { return l.isDone(e) })
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("calls that do not block were counted: %+v", m.Sub(before))
	}
}

// measureBlocked waits for a gate that is opened a millisecond later. It returns the counts, and bounds on the time
// for which the call was blocked.
func (l *lab) measureBlocked(wait func(device.Event) error) (m device.Meter, least, most time.Duration) {
	l.t.Helper()
	g := l.holdStream(l.main)
	e := l.record(l.main)
	g.waitStarted()
	before := l.dev.Meter()
	opened := make(chan time.Time, 1)
	go func() {
		time.Sleep(time.Millisecond)
		opened <- time.Now() // before it opens, for a lower bound
		g.open()
	}()
	start := time.Now()
	l.ok(wait(e))
	most = time.Since(start)
	return l.dev.Meter().Sub(before), (<-opened).Sub(start), most
}
