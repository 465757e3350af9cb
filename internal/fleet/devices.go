package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/launch"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Devices compares the devices of one machine. Blocks in which all devices run together alternate with blocks in which
// one device runs alone. With one process per device, the intervals omit the variation between processes.
type Devices struct {
	Rounds int         `json:"rounds"` // in each round all devices run together once, and each alone once
	Unit   string      `json:"unit"`   // of throughput
	Rows   []DeviceRow `json:"rows"`   // in the order in which the user named the devices
	// Slowest is the device with the longest step when all run together. Skew is that step over the median of all
	// devices in the same round; it is above 1 even for equal devices, since one is always slowest. With one measured
	// device Slowest is empty and Skew null.
	Slowest string         `json:"slowest,omitempty"`
	Skew    *gpuprof.Ratio `json:"skew"`
	// Scaling is the throughput of all devices together over the sum of their throughputs alone, by round; 1 means no
	// disturbance.
	Scaling *gpuprof.Ratio `json:"scaling"`
	// Overlap is the shortest block over the longest block of devices that ran together, the median over the rounds. It
	// is the share of a block in which every device worked.
	Overlap gpuprof.Number `json:"overlap"`
}

// DeviceRow is one device.
type DeviceRow struct {
	Device string   `json:"device"` // "cuda:1"
	Name   string   `json:"name"`
	Driver string   `json:"driver,omitempty"` // driver version; the driver compiles PTX
	Shared *Reached `json:"together"`         // null if the device failed
	Alone  *Reached `json:"alone"`
	// Slowdown is the device's step when all devices run together over its step alone, by round.
	Slowdown *gpuprof.Ratio `json:"slowdown"`
	Failed   string         `json:"failed,omitempty"` // the reason, "" if it did not fail
}

// Reached summarises a device's blocks, either together with the other devices or alone. A block's sample is the median
// of its steps.
type Reached struct {
	StepS gpuprof.Number    `json:"step_s"`
	CI95  [2]gpuprof.Number `json:"ci95"`       // of step_s
	Rate  gpuprof.Number    `json:"throughput"` // work per second, in Devices.Unit
	Clock gpuprof.Number    `json:"clock_hz"`   // of the multiprocessors at the end of a block; null when unknown
	steps []float64         // by round, s
	rates []float64         // by round
}

// DeviceRun holds the measurements of one device; index k of each list is round k.
type DeviceRun struct {
	Device string
	Run    *gpuprof.Run // the blocks with all devices together, one sample each; nil if the device failed
	Alone  *gpuprof.Run // the blocks alone
	Clocks [2][]float64 // Hz, together and alone; 0 if unknown
	TurnS  []float64    // duration of each block together, s
	Failed error
}

// OfDevices judges the devices of one machine: each against the other devices, like the ranks of a job, and each
// against its own speed alone. The exit code is 4 if a device failed, else 0, since the command measures and does not
// gate. The error is ErrInput if no device was measured.
func OfDevices(runs []DeviceRun, by gpuprof.Tool) (*Report, error) {
	job := &Job{World: len(runs), Told: true}
	d := &Devices{}
	var turns [][]float64
	for i, run := range runs {
		row := DeviceRow{Device: run.Device}
		if run.Failed != nil || run.Run == nil {
			row.Failed = failureText(run.Failed)
			d.Rows = append(d.Rows, row)
			continue
		}
		row.Name, row.Driver = run.Run.Device.Name, run.Run.Device.DeviceInfo["driver"]
		row.Shared, row.Alone = summariseBlocks(run.Run, run.Clocks[0]), summariseBlocks(run.Alone, run.Clocks[1])
		row.Slowdown = medianRatio(row.Shared.steps, row.Alone.steps)
		d.Rows = append(d.Rows, row)
		d.Unit = run.Run.Throughput.Unit
		turns = append(turns, run.TurnS)
		var text bytes.Buffer
		if err := document.EncodeRuns(&text, run.Run); err != nil {
			return nil, err
		}
		o := New(launch.Place{Launcher: "gpuprof", Rank: i, World: len(runs)}, document.Run, run.Run.Started, by, text.Bytes())
		o.device = run.Device
		job.Objects = append(job.Objects, o)
	}
	if len(job.Objects) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging what the devices gave: none was measured").WithFix("try each by itself with --device")
	}
	d.compareRounds()
	d.Overlap = gpuprof.Number(medianOverlap(turns))
	r := newReport(job, Options{Tool: by})
	r.Devices, r.GPUs, r.Launcher = d, len(runs), ""
	r.judgeRuns(job, Options{})
	r.setDeviceVerdict(runs)
	document.CleanStrings(r)
	return r, nil
}

func failureText(err error) string {
	if err == nil {
		return "it left no result"
	}
	return document.CleanText(err.Error())
}

func summariseBlocks(run *gpuprof.Run, clocks []float64) *Reached {
	out := &Reached{steps: slices.Concat(run.Step.Runs...), rates: slices.Concat(run.Throughput.Series.Runs...), Clock: gpuprof.Number(knownMedian(clocks))}
	s := stats.Summarise("s", out.steps)
	out.StepS, out.CI95 = gpuprof.Number(s.Median), [2]gpuprof.Number{gpuprof.Number(s.CI95[0]), gpuprof.Number(s.CI95[1])}
	out.Rate = gpuprof.Number(stats.Median(out.rates))
	return out
}

func (d *Devices) compareRounds() {
	var ran []*DeviceRow
	for i := range d.Rows {
		if d.Rows[i].Shared != nil {
			ran = append(ran, &d.Rows[i])
			d.Rounds = len(d.Rows[i].Shared.steps)
		}
	}
	if len(ran) < 2 {
		return
	}
	slowest := slices.MaxFunc(ran, func(a, b *DeviceRow) int { return cmp.Compare(a.Shared.StepS, b.Shared.StepS) })
	d.Slowest = slowest.Device
	var middle, together, alone []float64
	for k := range d.Rounds {
		var steps []float64
		rate, apart := 0.0, 0.0
		for _, row := range ran {
			steps = append(steps, row.Shared.steps[k])
			rate, apart = rate+row.Shared.rates[k], apart+row.Alone.rates[k]
		}
		middle, together, alone = append(middle, stats.Median(steps)), append(together, rate), append(alone, apart)
	}
	d.Skew, d.Scaling = medianRatio(slowest.Shared.steps, middle), medianRatio(together, alone)
}

// medianRatio returns the median over rounds of over/under, in which a disturbance of a whole round cancels; nil
// without rounds.
func medianRatio(over, under []float64) *gpuprof.Ratio {
	var ratios []float64
	for k := range over {
		ratios = append(ratios, over[k]/under[k])
	}
	s := stats.Summarise("1", ratios)
	if s == nil {
		return nil
	}
	return &gpuprof.Ratio{Ratio: s.Median, CI95: s.CI95}
}

// medianOverlap returns Devices.Overlap from each device's block durations by round.
func medianOverlap(turns [][]float64) float64 {
	var shares []float64
	for k := range turns[0] {
		least, most := turns[0][k], turns[0][k]
		for _, t := range turns[1:] {
			least, most = min(least, t[k]), max(most, t[k])
		}
		shares = append(shares, least/most)
	}
	return stats.Median(shares)
}

// LeastOverlap is the Overlap below which a note warns that the devices hardly ran together.
const LeastOverlap = 0.8

func (r *Report) setDeviceVerdict(runs []DeviceRun) {
	slices.SortStableFunc(r.Off, func(a, b Off) int { return cmp.Compare(b.Worse, a.Worse) })
	var off, failed []string
	for i := range r.Off {
		o := &r.Off[i]
		if !slices.Contains(off, o.Device) {
			off = append(off, o.Device)
		}
		o.Fix = fmt.Sprintf("look at the GPUs with gpuprof doctor --bench --device %s beside another, and at what else runs on it", strings.TrimPrefix(o.Device, "cuda:"))
	}
	for i := range r.Devices.Rows {
		if row := &r.Devices.Rows[i]; row.Failed != "" {
			failed = append(failed, row.Device)
			r.Failed = append(r.Failed, i)
			r.Problems = append(r.Problems, row.Device+": "+row.Failed)
		}
	}
	if s := float64(r.Devices.Overlap); len(runs)-len(failed) > 1 && s < LeastOverlap {
		r.Notes = append(r.Notes, fmt.Sprintf("the devices ran together for %.0f %% of a turn only, since their steps are of different length; scaling may be worse", 100*s))
	}
	if slices.ContainsFunc(runs, func(d DeviceRun) bool { return d.Run != nil && d.Run.Simulated() }) {
		r.Notes = append(r.Notes, "the devices are simulated: their times mean nothing")
	}
	switch {
	case len(r.Problems) > 0:
		r.Verdict, r.Reason, r.ExitCode = Broken, fmt.Sprintf("%d of %d devices failed: %s", max(len(failed), 1), r.World, strings.Join(failed, ", ")), Broken.ExitCode()
	case len(off) > 0:
		r.Verdict, r.Reason = Uneven, fmt.Sprintf("%d of %d devices slower than the others: %s", len(off), r.World, strings.Join(off, ", "))
	case r.few != "":
		r.Verdict, r.Reason = TooFew, r.few
	case r.compared < 2:
		r.Verdict, r.Reason = TooFew, "there are no two devices of one kind to compare"
	default:
		r.Verdict, r.Reason = Even, r.evenReason("device", "the others")
	}
}

// knownMedian returns the median of the positive values; 0 means unknown. It is NaN without any.
func knownMedian(values []float64) float64 {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !(v > 0) })
	return stats.Median(known)
}
