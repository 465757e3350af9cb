// Package devicebench measures how fast a device copies, multiplies and launches, for gpuprof doctor --bench. Each
// device gives a health.Card, which package health judges. Devices are measured one after the other if they share
// memory, links or the CPU, then all together under load, because they share heat and power too. Each figure is the
// best of several tries, because a disturbance only makes a try slower:
//
//	copy            B/s     device to device, bytes read plus bytes written
//	h2d_pinned      B/s     host to device, and back, from and to both kinds of host memory
//	h2d_pageable    B/s
//	d2h_pinned      B/s
//	d2h_pageable    B/s
//	gemm_fp32       flop/s  square product by cuBLAS, 2 n^3 flops
//	gemm_tf32       flop/s
//	gemm_bf16       flop/s
//	gemm_fp32_own   flop/s  by gpuprof's own kernel, if cuBLAS is missing
//	launch          s       an empty kernel, from the call until the host has seen its end
//	launch_interval s       between empty kernels launched back to back, on the device
//	event_pair      s       between two events with nothing between them
//	sustained       flop/s  the fastest of the products, second half of the load
//	sm_clock        Hz      under load, median of the second half
//	power           W       likewise, mean
//	temperature     C       likewise, maximum
package devicebench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Instruments is the telemetry of a device. Track times are seconds from Start.
type Instruments interface {
	Start(ctx context.Context, every time.Duration)
	Pause()
	Resume()
	Stop() map[string]gpuprof.Track
	Throttles() map[string]float64 // seconds by reason since the device was chosen
	Foreign() (n int, ok bool)
}

// Target is a device to measure.
type Target struct {
	Device string // name for the command line
	UUID   string
	// Open is called on the goroutine that measures the device.
	Open func() (device.Device, error)
	// Instruments may be nil.
	Instruments Instruments
	Condition   health.Condition
	// CPUs are the processors near the device, on which copies and launches are measured. If there are none, the thread
	// stays where it is.
	CPUs []int
}

// Options set sizes and times; zero fields take the values in brackets.
type Options struct {
	Load      time.Duration // time under load [10 s]
	LinkBytes int           // per copy over the link [256 MiB]
	Product   int           // largest side of a product, a multiple of 128 [8192]
	Tries     int           // the best of them counts [10]
	Launches  int           // empty kernels launched back to back [1000]
	// Late, if set, reports that the time for the measurement is over; later figures then stay unknown, without an error.
	Late func() bool
	// Progress, if set, receives each phase when it begins. Several goroutines call it.
	Progress func(device, phase string)
}

func (o Options) withDefaults() Options {
	if o.Load <= 0 {
		o.Load = 10 * time.Second
	}
	if o.LinkBytes <= 0 {
		o.LinkBytes = 256 << 20
	}
	if o.Product <= 0 {
		o.Product = 8192
	}
	if o.Tries <= 0 {
		o.Tries = 10
	}
	if o.Launches <= 0 {
		o.Launches = 1000
	}
	if o.Late == nil {
		o.Late = func() bool { return false }
	}
	if o.Progress == nil {
		o.Progress = func(string, string) {}
	}
	o.Product = max(o.Product/tile*tile, tile)
	return o
}

// Quick returns the options of a short check. It does the same work in fewer tries, so that figures stay comparable.
func Quick(late func() bool) Options { return Options{Load: 3 * time.Second, Tries: 3, Late: late} }

// telemetryEvery is the interval between two readings of a device's telemetry.
const telemetryEvery = 100 * time.Millisecond

// Run measures every target and returns their cards in order. A failure of one target is noted in its card and does
// not stop the others. It takes some seconds per target, then Options.Load for all together.
func Run(ctx context.Context, targets []Target, o Options) []health.Card {
	o = o.withDefaults()
	cards := make([]health.Card, len(targets))
	turns := make([]chan struct{}, len(targets)+1)
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[0])
	var all, loaded sync.WaitGroup
	loaded.Add(len(targets))
	for i, t := range targets {
		all.Go(func() {
			b := &bench{ctx: ctx, o: o, target: t, card: &cards[i]}
			b.measureDevice(turns[i], func() { close(turns[i+1]) }, &loaded)
		})
	}
	all.Wait()
	return cards
}

type bench struct {
	ctx    context.Context
	o      Options
	target Target
	card   *health.Card

	dev      device.Device
	stream   device.Stream
	from, to device.Event
	frees    []func() error
	load     *product // the fastest product found
	started  time.Time
}

// measureDevice is the whole measurement of a device. It measures the device alone, after turn is closed and until it
// calls done; then together with the others, once all of them are ready.
func (b *bench) measureDevice(turn <-chan struct{}, done func(), loaded *sync.WaitGroup) {
	b.card.Device, b.card.UUID, b.card.Condition = b.target.Device, b.target.UUID, b.target.Condition
	end := sync.OnceFunc(done)
	arrive := sync.OnceFunc(loaded.Done)
	// The other devices must never wait for this one.
	defer arrive()
	defer end()
	<-turn
	err := b.recoverPanic(func() error {
		if err := b.open(); err != nil {
			return err
		}
		return b.measureAlone()
	})
	end()
	if err == nil {
		arrive()
		loaded.Wait()
		err = b.recoverPanic(b.runLoad)
	}
	if cerr := b.close(); err == nil {
		err = cerr
	}
	b.finishCard(err)
}

// recoverPanic turns a panic of a device into an error, so that one broken device does not hide the others' figures.
func (b *bench) recoverPanic(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = gpuprof.Errorf(gpuprof.ErrDevice, "measuring %s: %v", b.target.Device, r).WithFix("this is a fault in gpuprof, please report it")
		}
	}()
	if err := b.ctx.Err(); err != nil {
		return err
	}
	return do()
}

func (b *bench) finishCard(err error) {
	why := "the measurement ended before it"
	switch {
	case err != nil:
		b.card.Err, b.card.Error = err, oneLine(err)
	case b.o.Late():
		why = "no time was left for it"
	default:
		return
	}
	for _, name := range health.Names() {
		if name != "gemm_fp32_own" && !slices.ContainsFunc(b.card.Metrics, func(m health.Metric) bool { return m.Name == name }) {
			b.card.SetUnknown(name, why)
		}
	}
}

func (b *bench) open() error {
	b.o.Progress(b.target.Device, "opening")
	var err error
	if b.dev, err = b.target.Open(); err != nil {
		return err
	}
	info := b.dev.Info()
	b.card.Name, b.card.Arch, b.card.Facts = info.Name, info.Arch, info.Facts
	if b.stream, err = b.dev.NewStream("bench"); err != nil {
		return err
	}
	if b.from, err = b.dev.NewEvent(); err != nil {
		return err
	}
	if b.to, err = b.dev.NewEvent(); err != nil {
		return err
	}
	if in := b.target.Instruments; in != nil {
		in.Start(b.ctx, telemetryEvery)
		in.Pause()
		b.started = time.Now()
	}
	return nil
}

// measureAlone measures the figures that need the whole machine.
func (b *bench) measureAlone() error {
	if len(b.target.CPUs) > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// A thread that may not use these processors stays on its current one.
		defer pin(b.target.CPUs)()
	}
	for _, phase := range []struct {
		name string
		do   func() error
	}{
		{"memory", b.measureCopies}, {"launches", b.measureLaunches}, {"products", b.measureProducts}, {"link", b.measureLink},
	} {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if b.o.Late() {
			return nil
		}
		b.o.Progress(b.target.Device, phase.name)
		if err := phase.do(); err != nil {
			return fmt.Errorf("measuring %s of %s: %w", phase.name, b.target.Device, err)
		}
	}
	return nil
}

// close releases everything; the device's own Close frees the remainder.
func (b *bench) close() error {
	if b.target.Instruments != nil && !b.started.IsZero() {
		b.target.Instruments.Stop()
	}
	errs := []error{b.release(0)}
	if b.stream != nil {
		errs = append(errs, b.stream.Close())
	}
	if b.dev != nil {
		errs = append(errs, b.dev.Close())
	}
	return errors.Join(errs...)
}

// allocate returns a buffer that lives until release frees it, at the latest until the end of the measurement.
func (b *bench) allocate(bytes int, p device.Place) (device.Buffer, error) {
	buf, err := b.dev.Alloc(bytes, p)
	if err == nil {
		b.frees = append(b.frees, buf.Free)
	}
	return buf, err
}

// mark returns the number of buffers allocated so far; release frees those allocated after it.
func (b *bench) mark() int { return len(b.frees) }

func (b *bench) release(mark int) error {
	var errs []error
	for i := len(b.frees) - 1; i >= mark; i-- {
		errs = append(errs, b.frees[i]())
	}
	b.frees = b.frees[:mark]
	return errors.Join(errs...)
}

// leastTime returns the shortest device time in seconds for the work of enqueue, by events, after a warm-up run.
func (b *bench) leastTime(enqueue func() error) (float64, error) {
	return b.leastOf(func() (time.Duration, error) {
		if err := errors.Join(b.stream.Record(b.from), enqueue(), b.stream.Record(b.to), b.stream.Sync()); err != nil {
			return 0, err
		}
		ns, err := b.dev.ElapsedNS(b.from, b.to)
		return time.Duration(ns), err
	})
}

// leastOf returns the shortest time of all tries but the first in seconds, at least 1 ns, so that no rate is infinite.
func (b *bench) leastOf(try func() (time.Duration, error)) (float64, error) {
	least := time.Duration(math.MaxInt64)
	for n := range b.o.Tries + 1 {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		d, err := try()
		if err != nil {
			return 0, err
		}
		if n > 0 {
			least = min(least, d)
		}
	}
	return max(least, 1).Seconds(), nil
}
