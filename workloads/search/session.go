package search

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// bench is one open session of a comparison.
type bench struct {
	side    Side
	dev     device.Device
	own     bool // no other session uses dev; close closes it
	sess    workloads.Session
	main    device.Stream
	probe   edgeProbe
	work    float64 // per step, in unit
	unit    string
	error   float64 // largest relative error against the float64 reference
	memory  int64   // bytes
	oneTime map[string]float64
	ahead   int // number of steps whose input may be prepared while the session is idle
	next    int
	stepS   float64
	counts  map[string]float64
	seen    tune.Seen // by callers, in the current comparison
}

func (p *InProcess) open(ctx context.Context, side Side) (_ *bench, err error) {
	dev, own, err := p.openDevice()
	if err != nil {
		return nil, err
	}
	s := &bench{side: side, dev: dev, own: own}
	defer func() {
		if err != nil {
			_ = s.close() // the first error is the one to report
		}
	}()
	if err := side.Workload.Refuse(dev.Info(), side.Knobs); err != nil {
		return nil, err
	}
	defer s.setEnvironment()()
	before, began := dev.Memory().InUse, time.Now()
	if s.sess, err = side.Workload.Open(ctx, dev, workloads.Config{Preset: side.Preset, Knobs: side.Knobs, Seed: 1, Mode: gpuprof.Steady}); err != nil {
		s.sess = nil // an interface with a nil pointer would not be nil
		return nil, err
	}
	if sub, ok := s.sess.(workloads.Substituter); ok && sub.Substituted() != "" {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "opening %s: %s, so this setting cannot be measured", side.Workload.Name(), sub.Substituted()).WithFix("repair the library, or use --set library=off")
	}
	s.oneTime = map[string]float64{"setup_s": time.Since(began).Seconds()}
	s.readInput(s.sess.Input())
	s.work, s.unit = s.sess.Work()
	s.main = s.sess.Main()
	for i := range s.probe.events {
		if s.probe.events[i], err = dev.NewEvent(); err != nil {
			return nil, err
		}
	}
	if err := p.checkSession(ctx, s); err != nil {
		return nil, err
	}
	if err := s.warmUp(); err != nil {
		return nil, err
	}
	s.memory = dev.Memory().InUse - before
	if own {
		s.memory = dev.Memory().Peak
	}
	return s, nil
}

// oneTimeNames lists the keys of a session's input with one-time costs in seconds; other times are per batch.
func oneTimeNames() []string { return []string{"autotune_s", "graph_setup_s", "host_memory_s"} }

func oneTimeOf(in map[string]any) map[string]float64 {
	out := map[string]float64{}
	for _, k := range oneTimeNames() {
		if f, ok := in[k].(float64); ok {
			out[k] = f
		}
	}
	return out
}

func (s *bench) readInput(in map[string]any) {
	maps.Copy(s.oneTime, oneTimeOf(in))
	if n, ok := in["batches_ahead"].(int); ok {
		s.ahead = n
	}
}

// checkSession compares a session's results with the reference, or takes the error from an earlier session with the
// same setting.
func (p *InProcess) checkSession(ctx context.Context, s *bench) error {
	if e, ok := p.checked[s.side.key()]; ok {
		s.error = e
		return nil
	}
	if err := s.checkResults(ctx); err != nil {
		return err
	}
	if p.checked == nil {
		p.checked = map[string]float64{}
	}
	p.checked[s.side.key()] = s.error
	return nil
}

// checkResults compares the session's results with the float64 reference: a setting with other results is no
// alternative.
func (s *bench) checkResults(ctx context.Context) error {
	checks, err := workloads.CheckAll(ctx, s.sess)
	if err != nil {
		return err
	}
	for _, c := range checks {
		if e := float64(c.RelativeError); e > s.error && !c.Virtual {
			s.error = e
		}
		if !c.Pass {
			return gpuprof.Errorf(gpuprof.ErrCheck, "checking stage %s: relative error %.2g is above %.2g, so this setting computes something else", c.Stage, float64(c.RelativeError), c.Tolerance)
		}
	}
	return s.main.Sync()
}

// warmUp runs blocks until a block's length is known: the first step also loads kernels and data.
func (s *bench) warmUp() error {
	s.stepS = 0
	for range 3 {
		if _, err := s.timeBlock(blockTime / 3); err != nil {
			return err
		}
		if s.stepS > blockTime.Seconds() { // the first block took longer than three blocks should
			break
		}
	}
	return nil
}

func (s *bench) close() error {
	var err error
	if s.sess != nil {
		err = s.sess.Close()
	}
	if s.own {
		err = errors.Join(err, s.dev.Close())
	}
	return err
}

// setEnvironment sets the side's variables until the returned function is called.
func (s *bench) setEnvironment() func() {
	var restore []func()
	for k, v := range s.side.Env {
		if old, set := os.LookupEnv(k); set {
			restore = append(restore, func() { _ = os.Setenv(k, old) })
		} else {
			restore = append(restore, func() { _ = os.Unsetenv(k) })
		}
		_ = os.Setenv(k, v)
	}
	return func() {
		for _, f := range restore {
			f()
		}
	}
}
