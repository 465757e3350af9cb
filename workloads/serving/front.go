package serving

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/serving/kserve"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// mostRecomputed is the number of callers' answers that are recomputed in float64: one takes seconds on the largest
// network.
const mostRecomputed = 4

// mostReading is the largest number of requests whose bodies are read at the same time. A request enters the queue only
// after its body was read, so that slow callers do not fill the queue.
const mostReading = 1024

// front is the state of a load whose requests come from other programs, over HTTP.
type front struct {
	net     network
	callers *traffic.Callers
	rng     *rand.Rand
	seen    int
	drawn   []exchange // uniform sample of all answers
}

type exchange struct{ request, answer []byte }

// deliverAnswers passes a batch's answers to the callers, and returns how many of them are implausible.
func (o *front) deliverAnswers(l *slot) (wrong int) {
	out, n := l.out.Bytes(), o.net.answerBytes()
	for k, call := range l.calls {
		copy(call.Answer, out[k*n:(k+1)*n])
		if !o.net.isPlausible(call.Request, call.Answer) {
			wrong++
		}
		o.sampleAnswer(call)
	}
	return wrong
}

// sampleAnswer keeps a uniform sample of all answers (Vitter's algorithm R). The sample shares an answer's memory
// with the caller, which does not change it.
func (o *front) sampleAnswer(call *traffic.Call) {
	kept := exchange{call.Request, call.Answer}
	o.seen++
	if len(o.drawn) < mostRecomputed {
		o.drawn = append(o.drawn, kept)
	} else if i := o.rng.IntN(o.seen); i < mostRecomputed {
		o.drawn[i] = kept
	}
}

func (s *session) serveOutside(ctx context.Context, l workloads.Load, p *plan, address string) (*loadtest.Requests, error) {
	listener, err := listen(ctx, address)
	if err != nil {
		return nil, err
	}
	o := &front{net: s.net, rng: rand.New(rand.NewPCG(s.k.Seed, 0x6f757473696465))}
	service, world := s.newService(p, &runner{s: s, front: o})
	o.callers = &traffic.Callers{Queue: service.Queue}
	service.Sender = o.callers
	world.BeginOutside(ctx)
	server := &kserve.Server{Model: s.net.servedModel(), Callers: o.callers, Clock: world.At, Places: mostReading, Slowest: s.slowest, Hosts: hostNames(address)}
	server.Start(listener)
	if l.Listening != nil {
		l.Listening(listener.Addr().String())
	}
	timer := time.AfterFunc(p.window, func() {
		o.callers.Close() // before End: a closed front adds nothing to the queue
		world.End()
	})
	stop := reportProgress(ctx, l, p)
	err = service.Run(ctx)
	timer.Stop()
	server.Close(err != nil)
	stop()
	return s.outsideRequests(p, service.Books, o, server.Counts(), err)
}

// hostNames returns the host names of the service: the host in its address, and the machine's name.
func hostNames(address string) (names []string) {
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		names = append(names, host)
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	return names
}

// outsideRequests makes the result of a load whose requests came from other programs. failure is the error that ended
// the service early, or nil.
func (s *session) outsideRequests(p *plan, books *traffic.Account, o *front, c kserve.Counts, failure error) (*loadtest.Requests, error) {
	decode, err := c.Decode.Recorded()
	if err != nil {
		return nil, err
	}
	known := &loadtest.Outside{Rejected: c.Rejected, Gone: c.Gone, Decode: decode, Recomputed: len(o.drawn)}
	worst := 0.0
	for _, e := range o.drawn {
		apart, tolerance := s.net.recompute(e.request, e.answer)
		worst, known.Tolerance = max(worst, apart), tolerance // max returns NaN if either is NaN
	}
	if gpuprof.IsFinite(worst) {
		known.Error = &worst
	}
	p.outside = known
	if rate := books.Rate(); p.throughput > 0 && rate > 0 {
		p.relax = seconds(latency.Relaxation(p.throughput, rate))
	}
	out, fault := s.result(p, books, o.callers.Sent())
	switch {
	case failure != nil:
		return out, failure
	case fault == nil && !(worst <= known.Tolerance):
		fault = gpuprof.Errorf(gpuprof.ErrCheck, "serving: an answer is %.2g away from the network in float64, and may be %.2g, so no times are reported", worst, known.Tolerance).
			WithFix("report this as a bug")
	}
	return out, fault
}
