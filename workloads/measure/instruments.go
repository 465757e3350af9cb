package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Instruments read a device in addition to the event probe, such as by NVML. Unknown values are false or absent, never
// zero. Start and Stop are called by one goroutine, the other methods by several.
type Instruments interface {
	// Start samples in its own goroutine until Stop, which returns the tracks; their times are seconds since Start.
	Start(ctx context.Context, every time.Duration)
	Stop() map[string]gpuprof.Track
	// Between Pause and Resume no reading takes place.
	Pause()
	Resume()
	EnergyJ() (float64, bool) // counter in J, from any origin
	PowerW() (float64, bool)  // current power
	ClockHz() (float64, bool) // current clock of the multiprocessors
	// Throttles returns the seconds so far for which clocks were throttled, by reason, without unknown counters.
	Throttles() map[string]float64
	Foreign() (n int, ok bool)      // number of other programs' processes on the device
	Latency() (time.Duration, bool) // time of one call
	Facts() map[string]string       // for the fingerprint
}

const telemetryEvery = 100 * time.Millisecond

// Reason codes of flagged samples. Instruments.Throttles also uses the name powerCap.
const (
	flagThrottled = "throttled"
	flagPower     = "power-capped"
	flagForeign   = "foreign-process"

	causeQuota   = "cpu-quota"
	causeForeign = "foreign-process"
	powerCap     = "power-cap"
)

// flagOf returns the reason code with which the samples of a block with this disturbance are flagged.
func flagOf(cause string) string {
	switch cause {
	case powerCap:
		return flagPower
	case causeForeign:
		return flagForeign
	}
	return flagThrottled
}

// disturbances are the counters of possible disturbances, read at one time.
type disturbances struct {
	quota      float64 // seconds for which the CPU quota has throttled this process
	quotaKnown bool
	throttles  map[string]float64
	foreign    bool
}

func (r *runner) disturbances() disturbances {
	var d disturbances
	d.quota, d.quotaKnown = r.machine.Throttled()
	if in := r.plan.Instruments; in != nil {
		d.throttles = in.Throttles()
		n, ok := in.Foreign()
		d.foreign = ok && n > 0
	}
	return d
}

// since names the disturbances between two readings. The counters are cumulative, so short disturbances show too.
func (d disturbances) since(before disturbances) []string {
	var causes []string
	if d.quotaKnown && d.quota > before.quota {
		causes = append(causes, causeQuota)
	}
	for _, reason := range slices.Sorted(maps.Keys(d.throttles)) {
		if was, known := before.throttles[reason]; known && d.throttles[reason] > was {
			causes = append(causes, reason)
		}
	}
	if d.foreign || before.foreign {
		causes = append(causes, causeForeign)
	}
	return causes
}

// flagsOf returns the reason codes for a block's disturbances, without repetition.
func flagsOf(causes []string) []string {
	flags := []string{}
	for _, c := range causes {
		if f := flagOf(c); !slices.Contains(flags, f) {
			flags = append(flags, f)
		}
	}
	return flags
}

// disturbedWarnings warns about each cause, with the number of affected samples.
func (r *runner) disturbedWarnings() {
	s := r.samples
	for _, cause := range slices.Sorted(maps.Keys(s.causes)) {
		n, total := s.causes[cause], len(s.flags)
		switch cause {
		case causeQuota:
			r.warn("throttled", fmt.Sprintf("%d of %d samples fell into blocks in which the CPU quota throttled this process", n, total), "raise the container's CPU limit, or give --set threads a smaller number")
		case powerCap:
			r.warn("power-capped", fmt.Sprintf("%d of %d samples fell into blocks in which the power limit held the clocks down", n, total), "compare only with runs at the same power limit; nvidia-smi -q -d POWER shows it")
		case causeForeign:
			r.warn("foreign-process", fmt.Sprintf("%d of %d samples were taken while another program was on the device", n, total), "stop it, or measure on a device of your own; gpuprof doctor names it")
		default:
			r.warn("throttled", fmt.Sprintf("%d of %d samples fell into blocks in which the device's clocks were held down: %s", n, total, cause), "let the device cool down and check its airflow and power supply")
		}
	}
}

// startTelemetry starts sampling the machine and, with instruments, the device. stop ends the sampling and returns the
// tracks, with times since the start of the run.
func (r *runner) startTelemetry() (stop func() map[string]gpuprof.Track) {
	begunHost := time.Since(r.started).Seconds()
	machine := r.machine.Start(r.ctx, telemetryEvery)
	in := r.plan.Instruments
	if in == nil {
		return func() map[string]gpuprof.Track { return shiftTracks(machine.Stop(), begunHost) }
	}
	in.Start(r.ctx, telemetryEvery)
	begunDevice := time.Since(r.started).Seconds()
	return func() map[string]gpuprof.Track {
		tracks := shiftTracks(machine.Stop(), begunHost)
		maps.Copy(tracks, shiftTracks(in.Stop(), begunDevice))
		return tracks
	}
}

// shiftTracks adds seconds to the tracks' times. It copies the times, which several tracks may share.
func shiftTracks(tracks map[string]gpuprof.Track, by float64) map[string]gpuprof.Track {
	out := make(map[string]gpuprof.Track, len(tracks))
	for name, t := range tracks {
		at := make([]float64, len(t.TimeS))
		for i, v := range t.TimeS {
			at[i] = v + by
		}
		t.TimeS = at
		out[name] = t
	}
	return out
}

// addFacts adds the instruments' facts and the hash of the kernels; the device's own facts take precedence.
func (r *runner) addFacts() {
	facts := map[string]string{}
	if in := r.plan.Instruments; in != nil {
		maps.Copy(facts, in.Facts())
	}
	maps.Copy(facts, r.dev.Info().Facts)
	if h := r.dev.CodeHash(); h != "" {
		facts["ptx_hash"] = h
	}
	if len(facts) > 0 {
		r.run.Device.DeviceInfo = facts
	}
}

// sensor reads clock and power during a warm-up window.
type sensor struct {
	stop         chan struct{}
	done         sync.WaitGroup
	clock, power []float64
}

const sensorEvery = 20 * time.Millisecond

// watchSensor starts a sensor; nil without instruments.
func watchSensor(in Instruments) *sensor {
	if in == nil {
		return nil
	}
	s := &sensor{stop: make(chan struct{})}
	s.done.Go(func() {
		tick := time.NewTicker(sensorEvery)
		defer tick.Stop()
		for {
			if v, ok := in.ClockHz(); ok {
				s.clock = append(s.clock, v)
			}
			if v, ok := in.PowerW(); ok {
				s.power = append(s.power, v)
			}
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
		}
	})
	return s
}

func (s *sensor) end() {
	if s != nil {
		close(s.stop)
		s.done.Wait()
	}
}

// level holds, for each warm-up window, the median of one quantity and the standard error of this median.
type level struct {
	name            string
	limit           float64
	medians, errors []float64
}

func (l *level) add(readings []float64) {
	if len(readings) == 0 { // unknown
		return
	}
	l.medians, l.errors = append(l.medians, stats.Median(readings)), append(l.errors, stats.MedianError(readings))
}

// isSettled reports whether the quantity's medians in the last warm-up windows agree: ok is spread <= allowed, both
// relative to the median. A quantity without readings counts as settled.
func (l *level) isSettled() (spread, allowed float64, ok bool) {
	if len(l.medians) == 0 {
		return 0, 0, true
	}
	return agreement(l.medians, l.errors, l.limit)
}
