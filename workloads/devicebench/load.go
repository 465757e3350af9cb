package devicebench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	batchTime = 20e-3 // seconds of work per batch
	mostBatch = 1000  // launches; a queue holds about as many
	inFlight  = 3     // batches enqueued at once, so that the device never waits for the host
)

// runLoad keeps the device busy with the fastest product, and records the rate, and clock, power and temperature
// meanwhile.
func (b *bench) runLoad() error {
	if b.o.Late() || b.load == nil {
		return nil
	}
	b.o.Progress(b.target.Device, "load")
	in := b.target.Instruments
	var before map[string]float64
	if in != nil {
		before = in.Throttles()
		in.Resume()
	}
	begin := time.Now()
	rate, half, err := b.sustainLoad()
	if err != nil {
		return fmt.Errorf("holding %s under load: %w", b.target.Device, err)
	}
	b.card.Set("sustained", rate)
	if in == nil {
		for _, name := range []string{"sm_clock", "power", "temperature"} {
			b.card.SetUnknown(name, "there is no telemetry")
		}
		return nil
	}
	if n, ok := in.Foreign(); ok {
		b.card.Condition.Foreign = &n
	}
	b.card.Condition.ThrottledS = difference(before, in.Throttles())
	tracks := in.Stop()
	b.readTracks(tracks, half.Sub(b.started).Seconds(), begin.Sub(b.started).Seconds())
	b.started = time.Time{} // zero: stopped
	return nil
}

// sustainLoad keeps the device busy and returns its rate in flop/s over the second half, and the time when that began.
func (b *bench) sustainLoad() (rate float64, half time.Time, err error) {
	events := make([]device.Event, inFlight)
	for i := range events {
		if events[i], err = b.dev.NewEvent(); err != nil {
			return 0, half, err
		}
	}
	batch := min(max(1, int(batchTime/b.load.s)), mostBatch)
	begin := time.Now()
	end := begin.Add(b.o.Load)
	half = begin.Add(b.o.Load / 2)
	var done []time.Time // when the host saw the end of batch i
	for i := 0; time.Now().Before(end) || i < 2*inFlight; i++ {
		if err := b.ctx.Err(); err != nil {
			return 0, half, err
		}
		if i >= inFlight {
			if err := events[i%inFlight].Wait(); err != nil {
				return 0, half, err
			}
			done = append(done, time.Now())
		}
		for range batch {
			if err := b.stream.Launch(b.load.f, b.load.items, &b.load.args); err != nil {
				return 0, half, err
			}
		}
		if err := b.stream.Record(events[i%inFlight]); err != nil {
			return 0, half, err
		}
	}
	if err := b.stream.Sync(); err != nil {
		return 0, half, err
	}
	return b.load.flops * float64(batch) * batchRate(done, half), half, nil
}

// batchRate returns batches per second after the time half. done has at least two times at which the host saw a batch
// end, in order.
func batchRate(done []time.Time, half time.Time) float64 {
	first, _ := slices.BinarySearchFunc(done, half, time.Time.Compare)
	first = min(first, len(done)-2) // on a slow device a batch can last longer than the second half
	span := done[len(done)-1].Sub(done[first]).Seconds()
	return float64(len(done)-1-first) / max(span, 1e-9)
}

// difference returns b - a for every reason in b, or nil if b is empty, which means unknown.
func difference(a, b map[string]float64) map[string]float64 {
	if len(b) == 0 {
		return nil
	}
	out := map[string]float64{}
	for reason, v := range b {
		out[reason] = max(0, v-a[reason])
	}
	return out
}

// readTracks takes clock, power and temperature from the load's second half, which begins at from. It takes the link's
// generation from the time before the load, which begins at start. Both times are seconds since the telemetry began.
func (b *bench) readTracks(tracks map[string]gpuprof.Track, from, start float64) {
	inf := math.Inf(1)
	for _, m := range []struct {
		name, track string
		of          func([]float64) float64
	}{
		{"sm_clock", "gpu_sm_clock", upperMedian},
		{"power", "gpu_power", func(v []float64) float64 { return stat.Mean(v, nil) }},
		{"temperature", "gpu_temperature", slices.Max[[]float64]},
	} {
		if v := valuesBetween(tracks[m.track], from, inf); len(v) > 0 {
			b.card.Set(m.name, m.of(v))
		} else {
			b.card.SetUnknown(m.name, "telemetry does not report it")
		}
	}
	// The link slows down when idle, so take its best state.
	if v := valuesBetween(tracks["gpu_pcie_gen"], 0, start); len(v) > 0 {
		b.card.Condition.LinkGen = int(slices.Max(v))
	}
	if v := valuesBetween(tracks["gpu_pcie_width"], 0, inf); len(v) > 0 {
		b.card.Condition.LinkWidth = int(slices.Max(v))
	}
}

// upperMedian sorts v and returns its median, of an even number of values the larger one in the middle.
func upperMedian(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// valuesBetween returns a track's known values between two times.
func valuesBetween(t gpuprof.Track, from, to float64) []float64 {
	var out []float64
	for i, at := range t.TimeS {
		if v := float64(t.Value[i]); at >= from && at <= to && !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
