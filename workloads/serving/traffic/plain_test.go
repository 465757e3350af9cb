package traffic

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plain is the service written down once more, millisecond by millisecond, without a clock
// that jumps: answers, then arrivals, then batches. It gives how and when each request ended.
func plain(due []int, most, delay, depth, places, slo, alone int, rule Overload, takes func(int) int) []string {
	ends := make([]string, len(due))
	end := func(id int, how Outcome, now int) { ends[id] = fmt.Sprint(how, " at ", now) }
	type batch struct {
		ids  []int
		done int
	}
	var queue []int
	var flying []batch
	busy, next := 0, 0
	begin := func(now int, event bool) {
		for len(flying) < depth {
			// The service looks for what is too late when something happens.
			if !event && (len(queue) == 0 || now < due[queue[0]]+delay) {
				return
			}
			for rule == Deadline && len(queue) > 0 && due[queue[0]]+slo < now+alone {
				end(queue[0], Expired, now)
				queue = queue[1:]
			}
			if len(queue) == 0 || len(queue) < most && now < due[queue[0]]+delay {
				return
			}
			n := min(len(queue), most)
			busy = max(busy, now) + takes(n)
			flying = append(flying, batch{queue[:n:n], busy})
			queue = queue[n:]
		}
	}
	for now := 0; next < len(due) || len(queue) > 0 || len(flying) > 0; now++ {
		event := next < len(due) && due[next] <= now
		for len(flying) > 0 && flying[0].done <= now {
			for _, id := range flying[0].ids {
				end(id, Completed, now)
			}
			flying, event = flying[1:], true
		}
		for again := true; again; { // a place that a batch leaves may be taken at once
			if places > 0 && len(queue) == places {
				begin(now, event)
			}
			again = false
			for next < len(due) && due[next] <= now {
				id := next
				if places > 0 && len(queue) == places {
					if rule == Block {
						break
					}
					if rule == RefuseOld {
						id, queue = queue[0], append(queue[1:], id)
					}
					end(id, Refused, now)
					next++
					continue
				}
				queue = append(queue, id)
				next++
				again = rule == Block
			}
			begin(now, event)
		}
	}
	return ends
}

// Whatever the settings and the schedule, the service in virtual time ends each request as the
// plain one does, and when it does.
func TestAgainstPlain(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(r, name) }
		most, delay, depth, places := draw("max_batch", 1, 6), draw("delay", 0, 12), draw("depth", 1, 3), draw("queue", 0, 6)
		slo, alone, tau, alpha := draw("slo", 1, 40), draw("alone", 1, 8), draw("tau", 1, 9), draw("alpha", 0, 3)
		rule := rapid.SampledFrom([]Overload{RefuseNew, RefuseOld, Deadline, Block}).Draw(r, "rule")
		var due []int
		s := sim{
			batcher: Batcher{MaxBatch: most, MaxDelay: time.Duration(delay) * ms, SLO: time.Duration(slo) * ms, Alone: time.Duration(alone) * ms},
			depth:   depth, queue: places, rule: rule,
			world: Virtual{Time: linear(time.Duration(tau)*ms, time.Duration(alpha)*ms)},
		}
		at := 0
		for range draw("requests", 1, 60) {
			at += draw("gap", 0, 6)
			due, s.times = append(due, at), append(s.times, time.Duration(at)*ms)
		}
		got := make([]string, len(due))
		s.each = func(q *Request, how Outcome, now time.Duration) { got[q.ID] = fmt.Sprint(how, " at ", int(now/ms)) }
		s.run(t)
		want := plain(due, most, delay, depth, places, slo, alone, rule, func(b int) int { return tau + b*alpha })
		for id := range want {
			if got[id] != want[id] {
				r.Fatalf("request %d due at %d ended %s, want %s", id, due[id], got[id], want[id])
			}
		}
	})
}
