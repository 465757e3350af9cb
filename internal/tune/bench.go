package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Side is one setting to measure.
type Side struct {
	Workload gpuprof.Workload
	Preset   string
	Knobs    gpuprof.Settings  // complete, from gpuprof.Resolve
	Env      map[string]string // set in this process while the side is opened and run
}

// key names a side, the same for the same setting.
func (s Side) key() string {
	parts := []string{s.Workload.Name(), s.Preset}
	for _, m := range []map[string]string{s.Knobs, s.Env} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, k+"="+m[k])
		}
	}
	return strings.Join(parts, " ")
}

// Limits are what a comparison may take and what B must keep to.
type Limits struct {
	Goal      Goal
	Time      time.Duration // of the whole comparison, set-up included
	MaxError  float64       // largest relative error against float64; 0: no limit
	MaxMemory int64         // bytes; 0: no limit
	Seed      uint64
}

// Bench compares two settings. What B cannot do is in the Outcome; an error is
// what makes every further comparison pointless: A fails, or ctx ended.
type Bench interface {
	Compare(ctx context.Context, a, b Side, l Limits) (*Outcome, error)
}

// The protocol of a comparison in one process.
const (
	blockTime   = 40 * time.Millisecond
	energyBlock = 2 * time.Second // a GPU's counter moves every 20 to 100 ms
	leastPairs  = 4
	decidePairs = 8 // no early stop before: the interval of few pairs is luck
	mostPairs   = 120
	leastSteps  = 3
	mostSteps   = 4096
	decideWidth = 1.5 // half intervals from no effect: stricter than 95 %, since it is looked at again and again
)

// InProcess compares two sessions in this process, block by block in mirrored
// order (ABBA or BAAB). On the host device every session has a device of its
// own, since a limit on threads holds for a whole device; on a GPU both share
// one.
type InProcess struct {
	Open func() (gpuprof.Device, error)
	// EnergyJ reads the device's energy counter; nil where there is none.
	EnergyJ func() (joules float64, ok bool)

	shared gpuprof.Device
	kept   *bench // side A of the last comparison, kept open for the next
	// checked holds the errors of settings that have been compared with the
	// reference in this process: the same setting computes the same again.
	checked map[string]float64
}

// bench is one open session.
type bench struct {
	side    Side
	dev     gpuprof.Device
	own     bool
	sess    gpuprof.Session
	main    gpuprof.Stream
	probe   edgeProbe
	work    float64
	unit    string
	error   float64
	memory  int64
	oneTime map[string]float64
	ahead   int // steps whose input may be made while the session is idle
	next    int
	stepS   float64
	counts  map[string]float64
}

// Close ends what is still open.
func (p *InProcess) Close() error {
	err := p.release()
	if p.shared != nil {
		err = errors.Join(err, p.shared.Close())
		p.shared = nil
	}
	return err
}

func (p *InProcess) release() error {
	if p.kept == nil {
		return nil
	}
	err := p.kept.close()
	p.kept = nil
	return err
}

// Compare implements Bench.
func (p *InProcess) Compare(ctx context.Context, a, b Side, l Limits) (*Outcome, error) {
	began := time.Now()
	out := &Outcome{}
	defer func() { out.Seconds = time.Since(began).Seconds() }()
	sa, err := p.base(ctx, a)
	if err != nil {
		return nil, err
	}
	out.WorkA, out.Unit, out.MemoryA = sa.work, sa.unit, sa.memory
	sb, err := p.open(ctx, b)
	if ctx.Err() != nil {
		if sb != nil {
			_ = sb.close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		out.fail(err)
		return out, nil
	}
	out.WorkB, out.MemoryB, out.Error = sb.work, sb.memory, sb.error
	if l.refuses(out) {
		return out, sb.close()
	}
	out.OneTime = extra(sa.oneTime, sb.oneTime)
	err = p.blocks(ctx, sa, sb, l, began, out)
	closeErr := sb.close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if bad := (*sideError)(nil); errors.As(err, &bad) && bad.side == sb {
		out.fail(err)
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if closeErr != nil {
		out.fail(closeErr)
	}
	return out, nil
}

// fail marks what B could not do: refused is a setting the device never took.
func (o *Outcome) fail(err error) {
	o.Verdict, o.Reason = Failed, strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, gpuprof.ErrUsage) {
		o.Verdict = Refused
	}
	o.A, o.B, o.TimeA, o.TimeB = nil, nil, nil, nil
}

// refuses holds B to the limits on error and memory.
func (l Limits) refuses(o *Outcome) bool {
	switch {
	case l.MaxError > 0 && o.Error > l.MaxError:
		o.Verdict, o.Reason = Refused, fmt.Sprintf("its error against float64, %.2g, is above --max-error %.2g", o.Error, l.MaxError)
	case l.MaxMemory > 0 && o.MemoryB > l.MaxMemory:
		o.Verdict, o.Reason = Refused, fmt.Sprintf("it takes %s of memory, more than --max-memory %s",
			gpuprof.FormatBytes(float64(o.MemoryB)), gpuprof.FormatBytes(float64(l.MaxMemory)))
	}
	return o.Verdict != ""
}

func (p *InProcess) base(ctx context.Context, a Side) (*bench, error) {
	if p.kept != nil && p.kept.side.key() == a.key() {
		return p.kept, nil
	}
	if err := p.release(); err != nil {
		return nil, err
	}
	s, err := p.open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("opening the setting to compare with: %w", err)
	}
	p.kept = s
	return s, nil
}

// device gives a session its device: see InProcess.
func (p *InProcess) device() (d gpuprof.Device, own bool, err error) {
	if p.shared != nil {
		return p.shared, false, nil
	}
	if d, err = p.Open(); err != nil {
		return nil, false, err
	}
	if d.Info().Kind == "host" {
		return d, true, nil
	}
	p.shared = d
	return d, false, nil
}

// open opens, checks and warms up one side.
func (p *InProcess) open(ctx context.Context, side Side) (_ *bench, err error) {
	dev, own, err := p.device()
	if err != nil {
		return nil, err
	}
	s := &bench{side: side, dev: dev, own: own}
	defer func() {
		if err != nil {
			_ = s.close() // what went wrong first is what matters
		}
	}()
	if err := side.Workload.Refuse(dev.Info(), side.Knobs); err != nil {
		return nil, err
	}
	defer s.environment()()
	before, began := dev.Memory().InUse, time.Now()
	if s.sess, err = side.Workload.Open(ctx, dev, gpuprof.Config{Preset: side.Preset, Knobs: side.Knobs, Seed: 1, Mode: gpuprof.Steady}); err != nil {
		s.sess = nil // an interface that holds a nil pointer is not nil
		return nil, err
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
	if err := p.check(ctx, s); err != nil {
		return nil, err
	}
	if err := s.warm(); err != nil {
		return nil, err
	}
	s.memory = dev.Memory().InUse - before
	if own {
		s.memory = dev.Memory().Peak
	}
	return s, nil
}

// readInput takes one-time costs from what the session says of itself.
func (s *bench) readInput(in map[string]any) {
	for k, v := range in {
		if f, ok := v.(float64); ok && strings.HasSuffix(k, "_s") {
			s.oneTime[k] = f
		}
	}
	if n, ok := in["batches_ahead"].(int); ok {
		s.ahead = n
	}
}

// check checks a setting once.
func (p *InProcess) check(ctx context.Context, s *bench) error {
	if e, ok := p.checked[s.side.key()]; ok {
		s.error = e
		return nil
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if p.checked == nil {
		p.checked = map[string]float64{}
	}
	p.checked[s.side.key()] = s.error
	return nil
}

// check compares with the float64 reference: a setting that computes something
// else is no alternative.
func (s *bench) check(ctx context.Context) error {
	checks, err := s.sess.Check(ctx)
	if err != nil {
		return err
	}
	for _, c := range checks {
		if e := float64(c.RelativeError); e > s.error {
			s.error = e
		}
		if !c.Pass {
			return gpuprof.Errorf(gpuprof.ErrCheck, "checking stage %s: relative error %.2g is above %.2g; this setting computes something else", c.Stage, float64(c.RelativeError), c.Tolerance)
		}
	}
	return s.main.Sync()
}

// warm runs until a block is as long as it will be: the first one also loads.
func (s *bench) warm() error {
	s.stepS = 0
	for range 3 {
		if _, err := s.block(blockTime / 3); err != nil {
			return err
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

// environment sets the side's variables until the returned function is called.
func (s *bench) environment() func() {
	old := map[string]string{}
	for k, v := range s.side.Env {
		old[k] = os.Getenv(k)
		_ = os.Setenv(k, v)
	}
	return func() {
		for k, v := range old {
			if v == "" {
				_ = os.Unsetenv(k)
				continue
			}
			_ = os.Setenv(k, v)
		}
	}
}

// blocks runs pairs of blocks until the answer is clear or the time is spent.
func (p *InProcess) blocks(ctx context.Context, a, b *bench, l Limits, began time.Time, out *Outcome) error {
	bs := stats.NewBootstrap(seedOfDraws, 0)
	order := stats.MirroredOrder(mostPairs, l.Seed)
	target := blockTime
	if l.Goal == Energy {
		target = energyBlock
	}
	for pair := 0; pair < mostPairs && ctx.Err() == nil; pair++ {
		turns := [2]*bench{a, b}
		if order[pair] {
			turns = [2]*bench{b, a}
		}
		for _, s := range turns {
			cost, seconds, err := p.blockCost(s, l.Goal, target)
			if err != nil {
				return err
			}
			if s == b {
				out.B, out.TimeB = append(out.B, []float64{cost}), append(out.TimeB, []float64{seconds})
			} else {
				out.A, out.TimeA = append(out.A, []float64{cost}), append(out.TimeA, []float64{seconds})
			}
		}
		n := pair + 1
		spent := time.Since(began)
		late := spent > l.Time
		if n%2 == 1 && spent < 5*l.Time { // whole mirrored couples, unless they are far too dear
			continue
		}
		if late && (n >= leastPairs || spent > 4*l.Time) || n >= decidePairs && settled(bs, out) {
			break
		}
	}
	out.CountA, out.CountB = a.counts, b.counts
	return nil
}

// settled says that more pairs would not change the verdict.
func settled(bs *stats.Bootstrap, out *Outcome) bool {
	d := ratioOf(bs, out.A, out.B)
	if !d.ok {
		return false
	}
	if d.judge(Time) == None {
		return true
	}
	half := math.Log(d.ci[1]/d.ci[0]) / 2
	return math.Abs(math.Log(d.ratio)) > decideWidth*half && d.ci[1]-d.ci[0] < 0.06*d.ratio
}

// blockCost is the cost per unit of work over one block.
func (p *InProcess) blockCost(s *bench, g Goal, target time.Duration) (cost, seconds float64, err error) {
	runtime.GC() // so that none starts inside the block
	var before float64
	if g == Energy {
		var ok bool
		if p.EnergyJ == nil {
			return 0, 0, errNoEnergy()
		}
		if before, ok = p.EnergyJ(); !ok {
			return 0, 0, errNoEnergy()
		}
	}
	restore := s.environment()
	seconds, err = s.block(target)
	restore()
	if err != nil {
		return 0, 0, &sideError{s, err}
	}
	seconds /= s.work
	switch g {
	case Energy:
		after, ok := p.EnergyJ()
		if !ok || after <= before {
			return 0, 0, errNoEnergy()
		}
		return (after - before) / (s.work * float64(s.probe.seen)), seconds, nil
	case Memory:
		return float64(s.memory), seconds, nil
	}
	return seconds, seconds, nil
}

func errNoEnergy() error {
	return gpuprof.Errorf(gpuprof.ErrDevice, "tuning for energy: this device has no energy counter that can be read; use --goal time")
}

// sideError says whose step failed.
type sideError struct {
	side *bench
	err  error
}

func (e *sideError) Error() string { return e.err.Error() }
func (e *sideError) Unwrap() error { return e.err }

// extra is what B pays once and A does not.
func extra(a, b map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range b {
		out[k] = v - a[k]
	}
	return out
}
