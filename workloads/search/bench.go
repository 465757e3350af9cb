package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Side is one of the two settings in a comparison.
type Side struct {
	Workload workloads.Workload
	Preset   string
	Knobs    gpuprof.Settings  // complete, from workloads.Resolve
	Env      map[string]string // set in this process while the side is open
}

// key returns a text that identifies a side's setting.
func (s Side) key() string {
	parts := []string{s.Workload.Name(), s.Preset}
	for _, m := range []map[string]string{s.Knobs, s.Env} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, k+"="+m[k])
		}
	}
	return strings.Join(parts, " ")
}

// Limits bound a comparison's time, and B's error and memory.
type Limits struct {
	Goal      tune.Goal
	Time      time.Duration // of the whole comparison, set-up included
	MaxError  float64       // largest relative error against float64; 0: no limit
	MaxMemory int64         // bytes; 0: no limit
	Seed      uint64
	Pairs     int           // largest number of block pairs; 0: as many as needed
	Most      time.Duration // longest time if Time is too short for the fewest pairs; 0: twice Time
	// Rate is the load in requests per second; only the goal tune.Latency uses it. 0 means the rate that the settings of
	// side A give at A's measured throughput.
	Rate float64
	// Sitting reports that this is one of several comparisons whose mean is the result. Each opens both sides again, so
	// that the spread between sittings includes the effect of the buffers' addresses.
	Sitting bool
}

// Bench compares two settings. A failure of B is part of the Outcome. An error means that further comparisons are
// useless: A fails, or ctx ended.
type Bench interface {
	Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error)
}

// InProcess compares two sessions in this process, block by block in mirrored order (ABBA or BAAB). On a GPU both
// sessions share the device. On the host device each has its own, because a limit on threads applies to a whole
// device.
type InProcess struct {
	Open func() (device.Device, error)
	// EnergyJ reads the device's energy counter; nil if there is none.
	EnergyJ func() (joules float64, ok bool)

	// Now is the clock for Limits.Time; nil: time.Now.
	Now func() time.Time

	energyBlock time.Duration // 0: long enough for a GPU's counter

	rate   float64 // of requests, in the current comparison
	shared device.Device
	kept   *bench // side A of the last comparison, kept open for the next one
	// checked caches the errors against the reference by setting: the same setting computes the same results.
	checked map[string]float64
}

// Close closes the open sessions and the device.
func (p *InProcess) Close() error {
	err := p.closeSession()
	if p.shared != nil {
		err = errors.Join(err, p.shared.Close())
		p.shared = nil
	}
	return err
}

func (p *InProcess) closeSession() error {
	if p.kept == nil {
		return nil
	}
	err := p.kept.close()
	p.kept = nil
	return err
}

// Compare implements Bench.
func (p *InProcess) Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	now := p.Now
	if now == nil {
		now = time.Now
	}
	began := now()
	spent := func() time.Duration { return now().Sub(began) }
	out := &tune.Outcome{}
	defer func() { out.Seconds = spent().Seconds() }()
	if l.Sitting {
		if err := p.closeSession(); err != nil {
			return nil, err
		}
	}
	sa, err := p.baseSession(ctx, a)
	if err != nil {
		return nil, err
	}
	out.WorkA, out.Unit, out.MemoryA, out.ErrorA = sa.work, sa.unit, sa.memory, sa.error
	if l.Goal == tune.Latency {
		p.rate = l.Rate
		if out.Rate, err = p.rateOf(ctx, sa); err != nil {
			return nil, err
		}
	}
	sb, err := p.open(ctx, b)
	if ctx.Err() != nil {
		if sb != nil {
			_ = sb.close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		failOutcome(out, err)
		return out, nil
	}
	out.WorkB, out.MemoryB, out.Error = sb.work, sb.memory, sb.error
	if l.refuseAbove(out) {
		return out, sb.close()
	}
	out.OneTime = extraOneTime(sa.oneTime, sb.oneTime)
	err = p.measureBlocks(ctx, sa, sb, l, spent, out)
	closeErr := sb.close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if bad := (*sideError)(nil); errors.As(err, &bad) && bad.side == sb {
		// If B ran first, A may be unable to serve this rate, too.
		if l.Goal == tune.Latency && len(out.A) == 0 {
			if _, _, err := p.blockCost(ctx, sa, l.Goal, blockTime); err != nil {
				return nil, err
			}
		}
		failOutcome(out, err)
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if closeErr != nil {
		failOutcome(out, closeErr)
	}
	return out, nil
}

// failOutcome records a failure of B: Refused if the device does not support the setting, else Failed.
func failOutcome(o *tune.Outcome, err error) {
	o.Verdict, o.Reason = tune.Failed, strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, gpuprof.ErrUsage) {
		o.Verdict = tune.Refused
	}
	o.A, o.B, o.TimeA, o.TimeB = nil, nil, nil, nil
}

// refuseAbove records in o if B exceeds a limit on error or memory, and reports that.
func (l Limits) refuseAbove(o *tune.Outcome) bool {
	switch {
	case l.MaxError > 0 && o.Error > l.MaxError:
		o.Verdict, o.Reason = tune.Refused, fmt.Sprintf("its error against float64, %.2g, is above --max-error %.2g", o.Error, l.MaxError)
	case l.MaxMemory > 0 && o.MemoryB > l.MaxMemory:
		o.Verdict, o.Reason = tune.Refused, fmt.Sprintf("it takes %s of memory, more than --max-memory %s",
			gpuprof.FormatBytes(float64(o.MemoryB)), gpuprof.FormatBytes(float64(l.MaxMemory)))
	}
	return o.Verdict != ""
}

func (p *InProcess) baseSession(ctx context.Context, a Side) (*bench, error) {
	if p.kept != nil && p.kept.side.key() == a.key() {
		return p.kept, nil
	}
	if err := p.closeSession(); err != nil {
		return nil, err
	}
	s, err := p.open(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("opening the setting to compare with: %w", err)
	}
	p.kept = s
	return s, nil
}

// openDevice returns a session's device; own reports that no other session uses it.
func (p *InProcess) openDevice() (d device.Device, own bool, err error) {
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

func extraOneTime(a, b map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range b {
		out[k] = v - a[k]
	}
	return out
}
