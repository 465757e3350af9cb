package measure

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Kernels too short for the event clock's tick or for the events' own cost are timed by replaying their launches k, 2k
// and 4k times between one pair of events. The slope over the number of launches is the cost per launch; the costs of
// the events and of the start of the replay cancel in it.
const (
	shortTicks    = 200
	shortPairs    = 20
	slopeRounds   = 9
	nonLinear     = 0.01
	leastReplays  = 4
	mostReplays   = 512
	mostLaunches  = 4096 // of the longest replay
	shortBudget   = 5 * time.Second
	namedInAText  = 3
	replayBlockNS = 100_000
)

type kernelKey struct {
	stage int
	name  string
}

// shortKernel holds one step's launches of a kernel, and their total time as the kernel pass measured it.
type shortKernel struct {
	kernelKey
	launches []events.Launch
	stepS    float64 // by the kernel pass
}

// slope is a replayed kernel's seconds per step, one per round. nonLinear is the relative difference between the slope
// from 2k to 4k replays and the slope from k to 2k.
type slope struct {
	perStep   []float64
	nonLinear float64
	error     float64 // standard error of nonLinear
}

// shortLimit returns the shortest launch that a pair of events can resolve, in seconds.
func (r *runner) shortLimit() float64 {
	c := r.run.Calibration
	return max(shortTicks*c["event_tick"], shortPairs*c["empty_event_pair"])
}

// shortPass replays the short kernels. It runs last, because replays leave invalid data in the session's memory.
func (r *runner) shortPass() error {
	list := r.shortKernels()
	if len(list) == 0 {
		return nil
	}
	r.plan.report("short kernels", 0, float64(len(list)), "")
	rng := rand.New(rand.NewPCG(r.plan.Seed, 0x73686f7274))
	began := time.Now()
	r.slopes = map[kernelKey]slope{}
	left := 0
	for i, k := range list {
		if r.ctx.Err() != nil {
			return nil
		}
		if i > 0 && time.Since(began) > r.shortFor {
			left = len(list) - i
			break
		}
		s, err := r.replayKernel(k, rng)
		switch {
		case errors.Is(err, gpuprof.ErrUsage): // memory of the launch was freed, for example by a trimmed pool
			left++
		case err != nil:
			return fmt.Errorf("replaying kernel %s: %w", k.name, err)
		case stats.Median(s.perStep) > 0:
			r.slopes[k.kernelKey] = s
		default:
			left++
		}
		r.plan.report("short kernels", float64(i+1), float64(len(list)), "")
	}
	if left > 0 {
		r.warn("short-kernels", fmt.Sprintf("%d of %d kernels are shorter than %s, the limit of a pair of events, and were not measured by replay", left, len(list), gpuprof.FormatSeconds(r.shortLimit())),
			"read their times as upper bounds, or give more time with --max-time")
	}
	r.nonLinearWarning()
	return nil
}

// shortKernels lists the kernels that are too short for events, from the middle step of the kernel pass.
func (r *runner) shortKernels() []shortKernel {
	b, limit := r.kernels, r.shortLimit()
	if b == nil || b.last <= b.first || limit <= 0 {
		return nil
	}
	mid := (b.first + b.last) / 2
	at := map[kernelKey]int{}
	var list []shortKernel
	for _, l := range b.rec.Launches {
		key := kernelKey{l.Stage, l.Kernel}
		if stepAt(b.rec.Begin, l.Start) != mid {
			continue
		}
		i, seen := at[key]
		if !seen {
			i = len(list)
			at[key] = i
			list = append(list, shortKernel{kernelKey: key})
		}
		list[i].launches = append(list[i].launches, l)
		list[i].stepS += gpuprof.Seconds(l.End - l.Start)
	}
	return slices.DeleteFunc(list, func(k shortKernel) bool {
		n := len(k.launches)
		return k.stepS/float64(n) >= limit || n*4*leastReplays > mostLaunches ||
			slices.ContainsFunc(k.launches, func(l events.Launch) bool {
				// A replay lacks the step's set-up of the state by which cooperative blocks synchronize.
				return l.Func == nil || l.N == 0 || l.Func.Kernel().Cooperative
			})
	})
}

// replayKernel times k, 2k and 4k times a step's launches, in random order.
func (r *runner) replayKernel(k shortKernel, rng *rand.Rand) (slope, error) {
	n := len(k.launches)
	times := int(math.Ceil(r.shortLimit() / max(k.stepS, 1e-9)))
	times = max(leastReplays, min(times, mostReplays, mostLaunches/(4*n)))
	main := r.sess.Main()
	var ops [3]device.Op
	for i := range ops {
		op, err := r.dev.Capture(main, func() error {
			for range times << i {
				for j := range k.launches {
					l := &k.launches[j]
					if err := main.Launch(l.Func, l.N, &l.Args); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return slope{}, err
		}
		ops[i] = op
	}
	if _, err := r.timeOp(ops[2]); err != nil { // the first replay includes one-time costs
		return slope{}, err
	}
	var s slope
	var bends []float64
	for range slopeRounds {
		var x, y [3]float64
		for _, i := range rng.Perm(3) {
			t, err := r.timeOp(ops[i])
			if err != nil {
				return slope{}, err
			}
			x[i], y[i] = float64(times<<i), t
		}
		s.perStep = append(s.perStep, theilSen(x[:], y[:]))
		bends = append(bends, (y[2]-y[1])/(x[2]-x[1])/((y[1]-y[0])/(x[1]-x[0]))-1)
	}
	s.nonLinear, s.error = math.Abs(stats.Median(bends)), stats.MedianError(bends)
	return s, nil
}

// timeOp returns the device's seconds for one replay, behind a blocking kernel if the device can spin.
func (r *runner) timeOp(op device.Op) (float64, error) {
	main := r.sess.Main()
	if r.dev.CanSpin() {
		if err := r.dev.Spin(main, replayBlockNS); err != nil {
			return 0, err
		}
	}
	if err := cmp.Or(main.Record(r.pair[0]), op.Enqueue(main), main.Record(r.pair[1]), main.Sync()); err != nil {
		return 0, err
	}
	ns, err := r.dev.ElapsedNS(r.pair[0], r.pair[1])
	return gpuprof.Seconds(ns), err
}

func (r *runner) nonLinearWarning() {
	var worst float64
	var names []string
	for k, s := range r.slopes {
		// A slope of zero gives NaN, which fails this comparison.
		if s.nonLinear > nonLinear+2*s.error {
			worst = max(worst, s.nonLinear)
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	names = slices.Compact(names)
	text := strings.Join(names[:min(len(names), namedInAText)], ", ")
	if more := len(names) - namedInAText; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	r.warn("kernel-nonlinear", fmt.Sprintf("replayed twice as often, short kernels did not take twice as long, by up to %.1f %%: %s", 100*worst, text),
		"take their times as approximate; profile them with Nsight Compute")
}
