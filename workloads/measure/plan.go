// Package measure runs a plan: set up, check, warm up, sample, summarise. The result is a gpuprof.Run.
//
// Steps are measured in blocks, which begin and end with an idle device. In a probed block every stage has stage
// events, an event before and after it; in a bare block only the steps are timed. A span is one recorded interval of
// a stage. The caller's enqueueing is named launch, and the time that no stage owns gap.
package measure

import (
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// Plan holds every setting of a run.
type Plan struct {
	Workload workloads.Workload
	Preset   string
	Knobs    gpuprof.Settings // complete, from workloads.Resolve
	Seed     uint64
	Mode     gpuprof.Mode
	MinTime  time.Duration // minimum time of sampling
	MaxTime  time.Duration // maximum time of warm-up and sampling together
	Warmup   Warmup
	Samples  int // 0: until the interval is narrow enough or MaxTime is spent
	Tool     gpuprof.Tool
	Build    string // hash of the binary: part of the check cache's key
	CacheDir string // "" checks every time
	Progress func(Progress)
	// Instruments read the device in addition to the probe; may be nil. The caller opens and closes them.
	Instruments Instruments
	// NoRequests omits the load of a serving session. A Rate other than 0 replaces the rate in the settings.
	NoRequests bool
	Rate       float64
	// Listening is passed on as workloads.Load.Listening.
	Listening func(address string)
	// OwnDevice reports that the peer process of RunTurns uses another device, so that any other process on this
	// device is foreign.
	OwnDevice bool
	// Note receives a sentence if Check ran a substitute for an implementation that failed; may be nil.
	Note func(text string)
	// NoEnergy omits the energy pass, which takes about four seconds.
	NoEnergy bool
}

// Progress is the current phase of a run.
type Progress struct {
	Phase       string // setup, check, warm-up, sample, summarise
	Done, Total float64
	Note        string
}

// Warmup is the length of the warm-up before sampling; the zero value means no warm-up.
type Warmup struct {
	Auto  bool // until the step time settles
	Steps int
	Time  time.Duration
}

// ParseWarmup reads "auto", a number of steps, or a duration.
func ParseWarmup(s string) (Warmup, error) {
	if s == "auto" {
		return Warmup{Auto: true}, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return Warmup{Steps: n}, nil
	}
	d, err := gpuprof.ParseTime(s)
	if err != nil {
		why, _ := gpuprof.FixOf(err)
		return Warmup{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading --warmup: %s", why).WithFix("give auto, a number of steps (20, or 0 for none) or a time (2s)")
	}
	return Warmup{Time: d}, nil
}

// Constants of the measuring method.
const (
	minSamples     = 10     // least samples before sampling may end
	minPairs       = 3      // pairs of probed and bare blocks, for the overhead's interval
	halfWidthGoal  = 0.0125 // of the step's interval, relative to the step: a quarter of the default threshold of 5 %
	settleWindows  = 5
	settleSpread   = 0.01 // of the step time
	settleClock    = 0.01
	settlePower    = 0.02
	warmupCap      = 15 * time.Second
	blockTarget    = 150 * time.Millisecond
	minBlockSteps  = 5
	windowTarget   = 20 * time.Millisecond  // on the host device
	gpuWindow      = 200 * time.Millisecond // clocks and power follow this slowly
	blockSlack     = 1.25                   // length of a blocking kernel, relative to the caller's time per step
	blockNS        = 20_000                 // added to that length
	longestBlockNS = 50_000_000
	longStep       = time.Second            // step time above which blocks shrink to single steps
	turnLong       = 200 * time.Millisecond // longStep for RunTurns
	turnSteps      = 3
	enoughInTurn   = 500 // samples; more would only make the result large
	clockMismatch  = 0.01
	unevenSteps    = 0.1 // share by which mean and median of steps may differ
	lookAgain      = 20  // the interval is computed again when there are 1/20 more samples
)

func (p Plan) report(phase string, done, total float64, note string) {
	if p.Progress != nil {
		p.Progress(Progress{phase, done, total, note})
	}
}
