package traffic

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the settings and the schedule: the books add up, every request ends once, and no
// batch is larger than allowed.
func TestBooks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.IntRange(1, 9).Draw(r, "max_batch")
		s := sim{
			batcher: Batcher{MaxBatch: most, MaxDelay: time.Duration(rapid.IntRange(0, 9).Draw(r, "delay")) * ms, SLO: 20 * ms, Alone: 2 * ms},
			depth:   rapid.IntRange(1, 3).Draw(r, "depth"), queue: rapid.IntRange(0, 5).Draw(r, "queue"),
			rule:  rapid.SampledFrom([]Overload{RefuseNew, RefuseOld, Deadline, Block}).Draw(r, "rule"),
			world: Virtual{Fails: func(n int) bool { return n%7 == 3 }},
		}
		largest := 0
		s.world.Time = func(b int) time.Duration { largest = max(largest, b); return linear(ms, ms)(b) }
		at := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(r, "requests") {
			at += time.Duration(rapid.IntRange(0, 4).Draw(r, "gap")) * ms
			s.times = append(s.times, at)
		}
		ends := make([]int, len(s.times))
		s.each = func(q *Request, how Outcome, now time.Duration) {
			ends[q.ID]++
			if q.Sent < q.Due || how == Completed && (q.Taken < q.Sent || now < q.Taken) {
				r.Fatalf("request %d: due %s, sent %s, taken %s, over %s", q.ID, q.Due, q.Sent, q.Taken, now)
			}
		}
		books := s.run(t)
		for id, n := range ends {
			if n != 1 {
				r.Fatalf("request %d ended %d times", id, n)
			}
		}
		if largest > most {
			r.Fatalf("a batch of %d, allowed are %d", largest, most)
		}
		if s.rule == Block && books.refused > 0 {
			r.Fatalf("%d refused under block", books.refused)
		}
	})
}

// A sender that waits for room puts a request in as soon as a batch takes its place, even where the next one has to wait
// again: each of three slots begins at once.
func TestBlockFillsEverySlot(t *testing.T) {
	var ends [3]time.Duration
	s := sim{times: make([]time.Duration, 3), batcher: Batcher{MaxBatch: 1}, depth: 3, queue: 1, rule: Block, world: Virtual{Beside: true, Time: linear(10*ms, 0)}}
	s.each = func(r *Request, _ Outcome, now time.Duration) { ends[r.ID] = now }
	s.run(t)
	if ends != [3]time.Duration{10 * ms, 10 * ms, 10 * ms} {
		t.Errorf("answers at %v, want 10 ms each", ends)
	}
}

// The ledger finds a request that is lost, and one that is answered twice.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Account)
		want  string
	}{
		"lost":  {func(a *Account) { a.recordArrival(&Request{ID: 7}, 0); a.inside-- }, "came in"},
		"twice": {func(a *Account) { a.recordArrival(&Request{ID: 9}, 0); a.recordEnd(&Request{ID: 3}, Completed, 0) }, "left twice"},
		"late": {func(a *Account) {
			a.recordArrival(&Request{ID: 9, Due: ms}, ms)
			a.recordEnd(&Request{ID: 9, Due: ms}, Completed, 0)
		}, "before their requests"},
		"wrong":  {func(a *Account) { a.recordBatch(make([]Request, 1), 1) }, "another request"},
		"little": {func(a *Account) { a.area++ }, "Little's law"},
	} {
		a := NewAccount(1, ms, false)
		c.spoil(a)
		if got := strings.Join(a.Faults(a.entered), "; "); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A batch of one takes longer than the limit, so that every request is refused as soon as it
// is there. One that came after the service had read the clock is not refused before it was due.
func TestExpiresNothingEarly(t *testing.T) {
	books := NewAccount(1, ms, false)
	q := NewQueue(1, Deadline, books)
	if _, how, room := q.Put(Request{Due: 5 * ms, Counted: true}, 6*ms); how != Completed || !room {
		t.Fatal(how, room)
	}
	b := Batcher{MaxBatch: 1, SLO: ms, Alone: 4 * ms}
	const looked = 4 * ms
	if _, gone := q.Expire(b.tooLate(looked), looked); !gone {
		t.Fatal("it can be answered within 1 ms")
	}
	if f := books.Faults(1); len(f) > 0 || books.expired != 1 || books.last != 6*ms {
		t.Errorf("%d refused at %s: %v", books.expired, books.last, f)
	}
}

// More blocks than there is room for: neighbours join, and all of them together are the whole.
func TestBlocksJoin(t *testing.T) {
	const requests = 200_000
	s := sim{times: Draw(requests, 1000, 1, 2), batcher: Batcher{MaxBatch: 8}, world: Virtual{Time: linear(ms, 100*time.Microsecond)}}
	books := s.run(t)
	for _, least := range []time.Duration{0, 20 * time.Second} {
		served, err := books.Served(least)
		if err != nil {
			t.Fatal(err)
		}
		n, last := int64(0), 0.0
		for i, b := range served.Blocks {
			if n += b.Completed; b.Seconds < least.Seconds() || i > 0 && math.Abs(b.StartS-last) > 1e-9 {
				t.Errorf("block %d of %d begins at %g s, after %g, and takes %g", i, len(served.Blocks), b.StartS, last, b.Seconds)
			}
			last = b.StartS + b.Seconds
		}
		if n != requests || len(served.Blocks) > mostBlocks {
			t.Errorf("%d blocks hold %d requests, want %d", len(served.Blocks), n, requests)
		}
	}
}

// Ten minutes of a busy service with failing batches and every rule of overload: nothing is
// lost or answered twice, and serving allocates nothing however long it goes on.
func TestSoak(t *testing.T) {
	for _, rule := range []Overload{RefuseNew, RefuseOld, Deadline, Block} {
		s := sim{batcher: Batcher{MaxBatch: 8, MaxDelay: 2 * ms, SLO: 60 * ms, Alone: 5 * ms}, depth: 2, queue: 64, rule: rule, times: poisson(900, 10*time.Minute, 3)}
		s.world = Virtual{Time: linear(4*ms, ms), Fails: func(n int) bool { return n%101 == 7 }}
		ended := make([]uint8, len(s.times))
		s.each = func(r *Request, _ Outcome, _ time.Duration) { ended[r.ID]++ }
		books := s.run(t)
		for id, n := range ended {
			if n != 1 {
				t.Fatalf("%s: request %d ended %d times", rule, id, n)
			}
		}
		if books.failed == 0 || rule != Block && books.refused == 0 {
			t.Errorf("%s: %d failed, %d refused: nothing was planted", rule, books.failed, books.refused)
		}
	}
	var all [2]float64
	for i, n := range []int{5_000, 50_000} {
		times := Draw(n, 600, 1, 3)
		all[i] = testing.AllocsPerRun(1, func() {
			(&sim{times: times, batcher: Batcher{MaxBatch: 8}, depth: 2, queue: 64, world: Virtual{Time: linear(4*ms, ms)}}).run(t)
		})
	}
	if all[1] > all[0]+20 {
		t.Errorf("5,000 requests allocate %g times, 50,000 %g times", all[0], all[1])
	}
}

// An interrupt leaves the requests inside open.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	books := NewAccount(1, time.Second, false)
	q := NewQueue(0, RefuseNew, books)
	world := &Virtual{Source: &Schedule{Times: Draw(1000, 1000, 0, 1), Queue: q}, Time: func(int) time.Duration { return 2 * ms }}
	service := Service{World: world, Queue: q, Runner: world, Batcher: Batcher{MaxBatch: 1}, Depth: 1, Books: books,
		Sender: each(func(r *Request, _ Outcome, _ time.Duration) {
			if r.ID == 100 {
				cancel()
			}
		})}
	if err := service.Run(ctx); err != nil {
		t.Fatal(err)
	}
	served, err := books.Served(0)
	if err != nil || served.Completed != 101 || served.Open != served.Scheduled-101 || served.Open == 0 {
		t.Errorf("%+v, %v", served, err)
	}
	if f := books.Faults(world.Source.Sent()); len(f) > 0 {
		t.Error(f)
	}
}

// Traces that are none are refused with the line.
func TestTrace(t *testing.T) {
	got, err := ParseTrace([]byte("# arrivals\n0\n0.5\n\n0.5\n2\n"), "a.txt")
	if err != nil || len(got) != 4 || got[3] != 2*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "no arrival", "\n# x\n": "no arrival", "1\n0.5\n": "line 2: 0.5 s comes after 1 s", "1\nx\n": `line 2: "x" is not a number`, "-1\n": "line 1: -1 s is before",
		"NaN\n": "line 1", "inf\n": "line 1", "1e300\n": "line 1",
	} {
		if _, err := ParseTrace([]byte(text), "a.txt"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.txt") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte("0\n1.5\n"))
	f.Add([]byte("1e9\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		times, err := ParseTrace(text, "a.txt")
		if err == nil && len(times) == 0 {
			t.Error("no arrival and no error")
		}
		for i, at := range times {
			if at < 0 || i > 0 && at < times[i-1] {
				t.Errorf("arrival %d at %s", i, at)
			}
		}
	})
}

// Gaps have the mean and the spread that were asked for.
func TestDraw(t *testing.T) {
	for _, cv := range []float64{0, 0.5, 1, 3} {
		const n, rate = 200_000, 250.0
		times := Draw(n, rate, cv, 1)
		var sum, squares float64
		last := time.Duration(0)
		for _, at := range times {
			gap := (at - last).Seconds() * rate
			last = at
			sum, squares = sum+gap, squares+gap*gap
		}
		mean := sum / n
		near(t, "the mean gap", mean, 1, 0.02)
		if got := squares/n - mean*mean; got < 0.95*cv*cv-1e-6 || got > 1.05*cv*cv+1e-6 {
			t.Errorf("the gaps' variance is %g, want %g", got, cv*cv)
		}
	}
}

// The machine's own clock: a sender and the service share the queue, and the books add up.
func TestRealTime(t *testing.T) {
	books := NewAccount(4, time.Second, false)
	q := NewQueue(0, RefuseNew, books)
	schedule := &Schedule{Times: Draw(300, 20_000, 1, 1), Queue: q}
	runner := &Virtual{Source: schedule, Time: func(int) time.Duration { return 0 }}
	world := &Real{Queue: q, Runner: runner}
	world.Begin(context.Background(), schedule)
	service := Service{World: world, Queue: q, Runner: runner, Batcher: Batcher{MaxBatch: 4}, Depth: 2, Books: books}
	runner.now = Forever // every batch is done at once
	if err := service.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	world.Close()
	if f := books.Faults(schedule.Sent()); len(f) > 0 || books.completed != 300 {
		t.Errorf("%d completed: %v", books.completed, f)
	}
}
