package serving

import (
	"context"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// Check implements gpuprof.Session: every slot's batch against the reference, then the
// service in virtual time against what is known of it.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	checks, err := op.EachSlot(len(s.slots), func(k int) ([]gpuprof.Check, error) { return s.checkSlot(&s.slots[k]) })
	if err != nil {
		return checks, err
	}
	if s.wrong > 0 {
		return checks, gpuprof.Errorf(gpuprof.ErrCheck, "checking serving: %d answers belonged to another request", s.wrong).WithFix("report this as a bug")
	}
	known, err := traffic.KnownAnswers(ctx)
	for _, a := range known {
		checks = append(checks, gpuprof.Check{Stage: a.Name, RelativeError: gpuprof.Number(a.Error), Tolerance: a.Tolerance, Pass: a.Error <= a.Tolerance})
	}
	return checks, err
}

// checkSlot runs a batch through memory that was poisoned before. Nothing is rounded, so
// that nothing may differ.
func (s *session) checkSlot(l *slot) ([]gpuprof.Check, error) {
	if err := op.Poison(s.dev, s.main, l.devIn, l.devOut); err != nil {
		return nil, err
	}
	for i := range s.maxBatch {
		gpuprof.Floats(l.in)[i], gpuprof.Floats(l.out)[i] = float32(math.NaN()), float32(math.NaN())
	}
	l.ids = l.ids[:0]
	for k := range s.batch {
		l.ids = append(l.ids, int64(3*k+1))
	}
	if err := s.run(l, loop.Silent{}); err != nil {
		return nil, err
	}
	if err := l.end.Wait(); err != nil {
		return nil, err
	}
	asked := make([]float32, len(l.ids))
	answered := make([]float32, len(l.ids))
	for k, id := range l.ids {
		asked[k], answered[k] = s.net.inputs[id%images], s.net.answer(int(id%images))
	}
	var out []gpuprof.Check
	add := func(stage stageAt, got, want []float32) {
		wrong := 0
		for k := range want {
			if got[k] != want[k] {
				wrong++
			}
		}
		out = append(out, loop.CheckOf(stage.name(), float64(wrong)/float64(len(want)), 0, len(want), len(want)))
	}
	add(stBatch, gpuprof.Floats(l.in), asked)
	onDevice, err := s.read(l.devIn, len(l.ids))
	if err != nil {
		return nil, err
	}
	add(stH2D, onDevice, asked)
	if onDevice, err = s.read(l.devOut, len(l.ids)); err != nil {
		return nil, err
	}
	add(stForward, onDevice, answered)
	add(stD2H, gpuprof.Floats(l.out), answered)
	out = append(out, loop.CheckOf(stAnswer.name(), float64(s.answers(l)), 0, len(l.ids), len(l.ids)))
	return out, s.release(l)
}

// read copies device memory back.
func (s *session) read(from gpuprof.Buffer, n int) ([]float32, error) {
	to, err := s.dev.Alloc(n*wordBytes, gpuprof.Pageable)
	if err != nil {
		return nil, fmt.Errorf("reading a batch back: %w", err)
	}
	if err := s.main.Copy(to, 0, from, 0, n*wordBytes); err != nil {
		return nil, err
	}
	if err := s.main.Sync(); err != nil {
		return nil, err
	}
	out := append([]float32{}, gpuprof.Floats(to)[:n]...)
	return out, to.Free()
}
