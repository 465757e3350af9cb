package machine

import (
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Clock holds the cost and the resolution of the host clock, in seconds.
type Clock struct {
	ReadS float64 // time of one read, the median over batches
	TickS float64 // the smallest difference between two reads
}

// MeasureClock reads the monotonic clock about ten thousand times, in about a millisecond.
func MeasureClock() Clock {
	const batches, reads = 25, 400
	start := time.Now()
	var costs [batches]float64
	tick := time.Duration(1 << 62)
	for b := range costs {
		begin := time.Since(start)
		last := begin
		for range reads {
			now := time.Since(start)
			if d := now - last; d > 0 && d < tick {
				tick = d
			}
			last = now
		}
		costs[b] = (last - begin).Seconds() / reads
	}
	slices.Sort(costs[:])
	return Clock{ReadS: costs[batches/2], TickS: tick.Seconds()}
}

func (m Machine) clockLine(c Clock) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "clock", State: gpuprof.OK, Found: "reads in " + gpuprof.FormatSeconds(c.ReadS) + ", steps of " + gpuprof.FormatSeconds(c.TickS)}
	if c.ReadS > 500e-9 || c.TickS > 1e-6 {
		l.State, l.Reason = gpuprof.Limited, "stages shorter than about a hundred clock reads cannot be told apart from the clock"
		l.Fix = "choose a larger preset, whose stages are longer"
		if m.system == "linux" {
			l.Fix = "choose the tsc clock source (/sys/devices/system/clocksource/clocksource0/current_clocksource), or larger stages"
		}
	}
	return l
}

// MeasureSleep returns how much longer than 1 ms a sleep of 1 ms takes, s: the median of several.
func MeasureSleep() float64 {
	const n = 15
	var late [n]float64
	for i := range late {
		begin := time.Now()
		time.Sleep(time.Millisecond)
		late[i] = (time.Since(begin) - time.Millisecond).Seconds()
	}
	slices.Sort(late[:])
	return late[n/2]
}

func sleepLine(late float64) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "timer", State: gpuprof.OK, Found: "a 1 ms sleep ends " + gpuprof.FormatSeconds(late) + " late"}
	if late > 1e-3 {
		l.State, l.Reason = gpuprof.Limited, "the scheduler wakes a waiting thread late, which shows as time in sync and wait stages"
		l.Fix = "stop other programs, or give the machine more CPUs"
	}
	return l
}
