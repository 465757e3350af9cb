package guides

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// transferName is the workload of claims about copies alone.
const transferName = "transfer"

// transfer copies a block to the device in every step, and works on it there with further copies. At most one earlier
// step is in flight. It only tests claims and is not in the list of workloads.
type transfer struct{}

func (transfer) Name() string { return transferName }
func (transfer) Doc() string {
	return "copies to the device beside work there, for claims about copies"
}
func (transfer) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (transfer) Stages() []gpuprof.Stage {
	copies := loop.Transfer()
	copies.MaxSpans = 1
	return []gpuprof.Stage{copies, {Name: "work", MaxSpans: 1}}
}
func (transfer) Refuse(device.Info, gpuprof.Settings) error { return nil }

func (transfer) Knobs() []workloads.Knob {
	return []workloads.Knob{
		workloads.IntKnob("bytes", "size of a block", 1<<20, 4, 1<<30).AsModel(),
		loop.PinnedKnob("host memory of the copies: on (pinned once) or off (pageable)", "on", "off"),
		loop.AsyncKnob("off makes the host thread wait for each copy"),
		loop.StreamsKnob("2 copies beside the work, 1 on the same stream"),
	}
}

// workPasses makes the device's work last about as long as the copy: a GPU's memory is this much faster than the bus.
const workPasses = 64

func (transfer) Open(_ context.Context, d device.Device, c workloads.Config) (_ workloads.Session, err error) {
	s := &transferSession{copies: copies{dev: d, n: c.Knobs.Int("bytes")}, wait: !c.Knobs.On("async_copy"), passes: 1}
	defer func() {
		if err != nil {
			_ = s.Close() // the first error is the one to report
		}
	}()
	if d.Info().Kind != "host" {
		s.passes = workPasses
	}
	place := device.Pageable
	if c.Knobs.On("pinned") {
		place = device.Pinned
	}
	began := time.Now()
	for k := range s.src {
		if s.src[k], err = s.alloc(s.n, place); err != nil {
			return nil, err
		}
		fillPattern(s.src[k].Bytes(), k)
	}
	s.allocS = time.Since(began).Seconds()
	for _, b := range []*device.Buffer{&s.dst[0], &s.dst[1], &s.scratch} {
		if *b, err = s.alloc(s.n, device.OnDevice); err != nil {
			return nil, err
		}
	}
	if s.main, err = s.stream("main"); err != nil {
		return nil, err
	}
	s.copy = s.main
	if c.Knobs["streams"] == "2" {
		if s.copy, err = s.stream("copy"); err != nil {
			return nil, err
		}
	}
	for k := range s.copied {
		if s.copied[k], err = d.NewEvent(); err != nil {
			return nil, err
		}
		if s.worked[k], err = d.NewEvent(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// fillPattern fills b with a pattern that depends on k; patterns of different k differ at every position.
func fillPattern(b []byte, k int) {
	for i := 0; i+4 <= len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(i+k)*2654435761)
	}
}

// copies holds the buffers and streams of a small program, which Close frees together.
type copies struct {
	dev     device.Device
	n       int
	buffers []device.Buffer
	streams []device.Stream
}

func (c *copies) alloc(n int, p device.Place) (device.Buffer, error) {
	b, err := c.dev.Alloc(n, p)
	if err == nil {
		c.buffers = append(c.buffers, b)
	}
	return b, err
}

func (c *copies) stream(name string) (device.Stream, error) {
	s, err := c.dev.NewStream(name)
	if err == nil {
		c.streams = append(c.streams, s)
	}
	return s, err
}

// Close implements workloads.Session.
func (c *copies) Close() error {
	var errs []error
	for _, s := range c.streams {
		errs = append(errs, s.Close())
	}
	for _, b := range c.buffers {
		errs = append(errs, b.Free())
	}
	return errors.Join(errs...)
}

func (c *copies) checkBytes(stage string, s device.Stream, on device.Buffer, want []byte) (gpuprof.Check, error) {
	check := gpuprof.Check{Stage: stage, RelativeError: gpuprof.Number(math.Inf(1))}
	back, err := c.dev.Alloc(len(want), device.Pinned)
	if err != nil {
		return check, err
	}
	err = errors.Join(s.Copy(back, 0, on, 0, len(want)), s.Sync())
	if err == nil && bytes.Equal(back.Bytes(), want) {
		check.RelativeError, check.Pass = 0, true
	}
	return check, errors.Join(err, back.Free())
}

type transferSession struct {
	copies
	wait           bool
	passes         int
	allocS         float64
	src, dst       [2]device.Buffer
	scratch        device.Buffer
	main, copy     device.Stream
	copied, worked [2]device.Event
	used           [2]bool
}

// Stages implements workloads.Session.
func (s *transferSession) Stages() []gpuprof.Stage { return transfer{}.Stages() }
func (s *transferSession) Main() device.Stream     { return s.main }
func (s *transferSession) Depth() int              { return len(s.dst) }
func (s *transferSession) Cycle() int              { return len(s.dst) }
func (s *transferSession) Work() (float64, string) { return float64(s.n), "bytes" }
func (s *transferSession) Input() map[string]any   { return map[string]any{"host_memory_s": s.allocS} }

// Check implements workloads.Session: it checks that both blocks arrive.
func (s *transferSession) Check(context.Context) ([]gpuprof.Check, error) {
	var out []gpuprof.Check
	for k := range s.dst {
		if err := s.Step(k, loop.Silent{}); err != nil {
			return nil, err
		}
		if err := s.main.Sync(); err != nil {
			return nil, err
		}
		for _, b := range []device.Buffer{s.dst[k], s.scratch} {
			c, err := s.checkBytes(loop.H2D, s.main, b, s.src[k].Bytes())
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// Step implements workloads.Session.
func (s *transferSession) Step(i int, p workloads.Probe) error {
	k := i % len(s.dst)
	if s.used[k] {
		if err := s.worked[k].Wait(); err != nil {
			return err
		}
	}
	if err := p.Start(i); err != nil {
		return err
	}
	if err := s.copyToDevice(k, p); err != nil {
		return err
	}
	span := p.Begin(1, s.main)
	for range s.passes {
		if err := s.main.Copy(s.scratch, 0, s.dst[k], 0, s.n); err != nil {
			return err
		}
	}
	p.End(span)
	s.used[k] = true
	return s.main.Record(s.worked[k])
}

func (s *transferSession) copyToDevice(k int, p workloads.Probe) error {
	span := p.Begin(0, s.copy)
	if err := s.copy.Copy(s.dst[k], 0, s.src[k], 0, s.n); err != nil {
		return err
	}
	p.End(span)
	if s.wait {
		if err := s.copy.Sync(); err != nil {
			return err
		}
	}
	if s.copy == s.main {
		return nil
	}
	if err := s.copy.Record(s.copied[k]); err != nil {
		return err
	}
	return s.main.WaitFor(s.copied[k])
}

// Programs returns the small workloads that only claims need.
func Programs() []workloads.Workload { return []workloads.Workload{transfer{}, weights{}} }
