package fleet

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// deviceRun has steps by round, together and alone, and throughputs of one over them.
func deviceRun(device string, together, alone []float64) DeviceRun {
	run := func(steps []float64) *gpuprof.Run {
		var rates []float64
		for _, s := range steps {
			rates = append(rates, 1/s)
		}
		return runOf(1, func(r *gpuprof.Run) {
			r.Device = gpuprof.Env{Kind: "cuda", Name: "H200", DeviceInfo: map[string]string{"uuid_hash": device, "pci_bus_hash": "bus of " + device, "driver": "580.1"}}
			r.Step = &gpuprof.Series{Unit: "s", Runs: [][]float64{steps}}
			r.Throughput = &gpuprof.Throughput{Unit: "probes/s", Series: &gpuprof.Series{Unit: "probes/s", Runs: [][]float64{rates}}}
		})
	}
	return DeviceRun{Device: device, Run: run(together), Alone: run(alone), TurnS: slices.Repeat([]float64{0.04}, len(together)),
		Clocks: [2][]float64{{1.7e9, 1.71e9, 0}, {1.98e9}}}
}

func near(got gpuprof.Number, want float64) bool { return math.Abs(float64(got)/want-1) < 1e-12 }

// TestOfDevices: of three GPUs one takes 1.2 times the median step, and together they have
// 10 % less than alone; noise that a round has on all of them cancels.
func TestOfDevices(t *testing.T) {
	round := []float64{1, 1.3, 0.8, 1.1, 1, 2, 0.9, 1, 1.05, 1}
	times := func(base float64) (out []float64) {
		for _, f := range round {
			out = append(out, base*f)
		}
		return out
	}
	runs := []DeviceRun{deviceRun("cuda:0", times(0.010), times(0.009)), deviceRun("cuda:1", times(0.012), times(0.0108)), deviceRun("cuda:3", times(0.010), times(0.009))}
	r, err := OfDevices(runs, by())
	if err != nil {
		t.Fatal(err)
	}
	d := r.Devices
	if d.Rounds != 10 || d.Slowest != "cuda:1" || d.Unit != "probes/s" || !near(gpuprof.Number(d.Skew.Ratio), 1.2) || !near(gpuprof.Number(d.Scaling.Ratio), 0.9) || !near(d.Overlap, 1) {
		t.Errorf("%+v, skew %v, scaling %v", d, d.Skew, d.Scaling)
	}
	for _, ratio := range []*gpuprof.Ratio{d.Skew, d.Scaling} {
		if ratio.CI95[1]-ratio.CI95[0] > 1e-9 {
			t.Errorf("the noise of rounds is in the interval of %v", ratio)
		}
	}
	row := d.Rows[1]
	if row.Device != "cuda:1" || row.Name != "H200" || row.Driver != "580.1" || !near(row.Shared.StepS, 0.012) || !near(row.Alone.StepS, 0.0108) || !near(gpuprof.Number(row.Slowdown.Ratio), 1/0.9) ||
		!near(row.Shared.Rate, 1/0.012) || !near(row.Shared.Clock, 1.705e9) || !near(row.Alone.Clock, 1.98e9) {
		t.Errorf("%+v, together %+v, alone %+v", row, row.Shared, row.Alone)
	}
	// Three devices are too few to call one slow.
	if r.Verdict != TooFew || r.ExitCode != 0 || len(r.Off) != 0 || !strings.Contains(r.Reason, "of cuda:1 is 20 % worse than the median of the 2 others") {
		t.Errorf("%s, %s, %+v", r.Verdict, r.Reason, r.Off)
	}
	// Of eight the rule for ranks names it, and neither its UUID nor its slot is the cause.
	for i := range 5 {
		runs = append(runs, deviceRun(fmt.Sprint("cuda:", 4+i), times(0.010), times(0.009)))
	}
	if r, err = OfDevices(runs, by()); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Uneven || r.ExitCode != 0 || len(r.Off) == 0 || r.Off[0].Device != "cuda:1" || !strings.Contains(r.Reason, "1 of 8 devices slower than the others: cuda:1") {
		t.Errorf("%s, %s, %+v", r.Verdict, r.Reason, r.Off)
	}
	for _, off := range r.Off {
		if off.Evidence || strings.Contains(off.Cause, "hash") {
			t.Errorf("%+v", off)
		}
	}
}

// TestOfDevicesFails: a device that failed has its reason in its row, and the others have
// their figures; without any there is no report.
func TestOfDevicesFails(t *testing.T) {
	steps := slices.Repeat([]float64{0.01}, 6)
	lost := DeviceRun{Device: "cuda:1", Failed: errors.New("the device is lost; reset it")}
	r, err := OfDevices([]DeviceRun{deviceRun("cuda:0", steps, steps), lost, deviceRun("cuda:2", steps, steps)}, by())
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Broken || r.ExitCode != 4 || !strings.Contains(r.Reason, "1 of 3 devices failed: cuda:1") || r.Devices.Rows[1].Failed != "the device is lost; reset it" ||
		r.Devices.Rows[1].Shared != nil || r.Devices.Scaling == nil || len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], "cuda:1: the device is lost") {
		t.Errorf("%+v", r)
	}
	if r, err = OfDevices([]DeviceRun{deviceRun("cuda:0", steps, steps), lost}, by()); err != nil || r.Devices.Skew != nil || r.Devices.Scaling != nil || r.Devices.Slowest != "" || r.Devices.Rounds != 6 {
		t.Errorf("%v, %+v", err, r.Devices)
	}
	if _, err = OfDevices([]DeviceRun{lost}, by()); err == nil {
		t.Error("a report of no device")
	}
}

// TestDevicesOverlap: turns of different length are noted, since the longer ones had no
// company for a part; equal ones are not, and neither are kinds that have no sibling.
func TestDevicesOverlap(t *testing.T) {
	steps := slices.Repeat([]float64{0.01}, 6)
	a, b := deviceRun("cuda:0", steps, steps), deviceRun("cuda:1", steps, steps)
	a.TurnS = slices.Repeat([]float64{0.1}, 6)
	r, err := OfDevices([]DeviceRun{a, b}, by())
	if err != nil || !near(r.Devices.Overlap, 0.4) || !strings.Contains(strings.Join(r.Notes, "\n"), "ran together for 40 % of a turn only") || r.Verdict != Even {
		t.Errorf("%v, %+v", err, r)
	}
	b.Run.Device.Name = "A100"
	b.TurnS = a.TurnS
	if r, err = OfDevices([]DeviceRun{a, b}, by()); err != nil || r.Verdict != TooFew || r.ExitCode != 0 || strings.Contains(strings.Join(r.Notes, "\n"), "of a turn") {
		t.Errorf("%v, %+v", err, r)
	}
}
