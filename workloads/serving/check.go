package serving

import (
	"bytes"
	"context"
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// knownAnswers caches the comparisons with queueing theory, which depend on the program alone and take long.
var knownAnswers = loop.Kept[struct{}, []traffic.Answer]{Most: 1}

// Check implements workloads.Session: it compares every slot's batch with the reference, then the service, simulated
// in virtual time, with results of queueing theory.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	checks, err := op.EachSlot(len(s.slots), func(k int) ([]gpuprof.Check, error) { return s.checkSlot(ctx, &s.slots[k]) })
	if err != nil {
		return checks, err
	}
	if s.wrong > 0 {
		return checks, gpuprof.Errorf(gpuprof.ErrCheck, "checking serving: %d answers belonged to another request", s.wrong).WithFix("report this as a bug")
	}
	return checks, nil
}

// KnownAnswers implements workloads.KnownAnswerer: it compares the service in virtual time with results of queueing theory.
func (s *session) KnownAnswers(ctx context.Context) (checks []gpuprof.Check, err error) {
	known, err := knownAnswers.Of(struct{}{}, func() ([]traffic.Answer, error) { return traffic.KnownAnswers(ctx) })
	for _, a := range known {
		checks = append(checks, gpuprof.Check{Stage: a.Name, RelativeError: gpuprof.Number(a.Error), Tolerance: a.Tolerance, Pass: a.Error <= a.Tolerance, Virtual: true})
	}
	return checks, err
}

// checkSlot runs a batch through memory that was filled with NaN before. Copies must be exact, and answers within the
// network's tolerance.
func (s *session) checkSlot(ctx context.Context, l *slot) ([]gpuprof.Check, error) {
	in, out := s.net.inputBuffer(l.at), s.net.outputBuffer(l.at)
	if err := op.Poison(s.dev, s.main, in, out); err != nil {
		return nil, err
	}
	for _, host := range [][]byte{s.ready, l.in.Bytes(), l.out.Bytes()} {
		for i := range host {
			host[i] = 0xff // NaN, where these are float32
		}
	}
	l.ids = l.ids[:0]
	for k := range s.batch {
		l.ids = append(l.ids, int64(3*k+1))
	}
	if err := s.run(l, 0, loop.Silent{}); err != nil {
		return nil, err
	}
	if err := l.end.Wait(); err != nil {
		return nil, err
	}
	n, m := s.net.requestBytes(), s.net.answerBytes()
	asked := make([]byte, len(l.ids)*n)
	for k, id := range l.ids {
		s.net.writeRequest(asked[k*n:(k+1)*n], id)
	}
	given, err := s.read(in, len(asked))
	if err != nil {
		return nil, err
	}
	answered, err := s.read(out, len(l.ids)*m)
	if err != nil {
		return nil, err
	}
	answers := append([]byte{}, l.out.Bytes()[:len(answered)]...)
	checks := []gpuprof.Check{checkMoved(stBatch, l.in.Bytes(), asked, n), checkMoved(stH2D, given, l.in.Bytes()[:len(given)], n)}
	parts, err := s.net.check(ctx, s.main, l.at, l.ids, answers)
	checks = append(append(checks, parts...), checkMoved(stD2H, answers, answered, m), loop.CheckOf(stAnswer.name(), float64(s.countWrong(l)), 0, len(l.ids), len(l.ids)))
	return checks, errors.Join(err, s.releaseSlot(l))
}

// checkMoved compares requests or answers of n bytes each that the stage only copies.
func checkMoved(stage stageAt, got, want []byte, n int) gpuprof.Check {
	wrong, all := 0, len(want)/n
	for k := range all {
		if !bytes.Equal(got[k*n:(k+1)*n], want[k*n:(k+1)*n]) {
			wrong++
		}
	}
	return loop.CheckOf(stage.name(), float64(wrong)/float64(all), 0, all, all)
}

func (s *session) read(from device.Buffer, n int) ([]byte, error) {
	return op.ReceiveBytes(s.dev, s.main, from, 0, n)
}
