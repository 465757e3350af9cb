// Package sampler reads quantities at a fixed interval during a measurement; the telemetry of machine and GPU uses it.
package sampler

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
)

// Capacity is the number of readings in a track: two minutes at 10 Hz. A longer run drops every second reading, and its
// interval doubles.
const Capacity = 1200

// Quantity is a value to sample. Read must not allocate: the garbage collector would disturb the measured program. A
// Sampler reads its quantities in order, so that the Read of one quantity can store the values of the next ones.
type Quantity struct {
	Name, Unit string
	Total      bool // subtract the first successful reading
	Read       func() (v float64, ok bool)
}

type track struct {
	Quantity
	first  float64 // NaN before the first successful reading
	values []gpuprof.Number
}

// Sampler samples from Start to Stop.
type Sampler struct {
	tracks []*track
	times  []float64
	start  time.Time
	stop   context.CancelFunc
	done   chan struct{}

	reading sync.Mutex // held during a reading
	paused  bool
}

// Start takes a first reading at once, and then samples in its own goroutine until Stop, or until ctx ends.
func Start(ctx context.Context, every time.Duration, quantities []Quantity) *Sampler {
	s := &Sampler{start: time.Now(), done: make(chan struct{}), times: make([]float64, 0, Capacity)}
	for _, q := range quantities {
		s.tracks = append(s.tracks, &track{Quantity: q, first: math.NaN(), values: make([]gpuprof.Number, 0, Capacity)})
	}
	s.sample()
	ctx, s.stop = context.WithCancel(ctx)
	go s.runLoop(ctx, max(every, time.Millisecond))
	return s
}

// Pause waits for a running reading and stops sampling until Resume. It costs only a lock.
func (s *Sampler) Pause() { s.setPaused(true) }

// Resume continues the sampling after Pause.
func (s *Sampler) Resume() { s.setPaused(false) }

func (s *Sampler) setPaused(v bool) {
	s.reading.Lock()
	s.paused = v
	s.reading.Unlock()
}

func (s *Sampler) runLoop(ctx context.Context, interval time.Duration) {
	defer close(s.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(s.times) == Capacity {
			s.thinSamples()
			interval *= 2
			tick.Reset(interval)
		}
		s.sample()
	}
}

// sample takes one reading of every quantity. It does nothing while sampling is paused.
func (s *Sampler) sample() {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.paused {
		return
	}
	s.times = append(s.times, time.Since(s.start).Seconds())
	for _, t := range s.tracks {
		v, ok := t.Read()
		switch {
		case !ok:
			v = math.NaN()
		case t.Total:
			if math.IsNaN(t.first) {
				t.first = v
			}
			v -= t.first
		}
		t.values = append(t.values, gpuprof.Number(v))
	}
}

func (s *Sampler) thinSamples() {
	half := len(s.times) / 2
	for i := range half {
		s.times[i] = s.times[2*i]
		for _, t := range s.tracks {
			t.values[i] = t.values[2*i]
		}
	}
	s.times = s.times[:half]
	for _, t := range s.tracks {
		t.values = t.values[:half]
	}
}

// Stop ends the sampling, takes a last reading and returns the tracks by name. A quantity without any successful
// reading is absent; single failed readings are NaN. Call it once.
func (s *Sampler) Stop() map[string]gpuprof.Track {
	s.stop()
	<-s.done
	if len(s.times) < Capacity {
		s.sample()
	}
	out := map[string]gpuprof.Track{}
	for _, t := range s.tracks {
		for _, v := range t.values {
			if !math.IsNaN(float64(v)) {
				out[t.Name] = gpuprof.Track{Unit: t.Unit, TimeS: s.times, Value: t.values}
				break
			}
		}
	}
	return out
}
