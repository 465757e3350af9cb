//go:build !race

// Under the race detector these sessions take ten times as long. TestTrainingOnCUDA has the kernels there.

package gruflow

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The knobs of a training step on the CUDA device: the gradients, the loss and the change of the
// parameters are the host's, and each knob costs the launches and the waits that it says.
func TestTrainingKnobsOnCUDA(t *testing.T) {
	const tensors, cotangents = 10, 2 // four a layer and two of the projection; of doses and of places
	const scaler = 2 + 1 + cotangents // unscaling by fives, the new scale
	for _, tt := range []struct {
		set, than string
		launches  func(plain, micro int64) int64 // of the setting than, and of one of its micro-batches
		waits     int64                          // of the fourth step
	}{
		{"", "", func(n, _ int64) int64 { return n }, 0},
		{"zero=fill", "", func(n, _ int64) int64 { return n + tensors }, 0},
		{"accumulate=3", "", func(n, micro int64) int64 { return n + 2*micro + 3*cotangents }, 0},
		{"accumulate=3,zero=fill,checkpoint=1", "checkpoint=1", func(n, micro int64) int64 { return n + 2*micro + 3*cotangents + tensors }, 0},
		{"clip_where=host", "", func(n, _ int64) int64 { return n }, 1},
		{"loss_read=step", "", func(n, _ int64) int64 { return n }, 1},
		{"loss_read=every:2", "", func(n, _ int64) int64 { return n }, 1},
		{"loss_read=every:3", "", func(n, _ int64) int64 { return n }, 0},
		{"accumulate=3,reset_stats=sync,loss_read=step", "accumulate=3", func(n, _ int64) int64 { return n }, 4},
		{"precision=fp16,scaler=static", "precision=fp16", func(n, _ int64) int64 { return n + scaler }, 0},
		{"precision=fp16,scaler=dynamic,graph=on", "precision=fp16,graph=on", func(n, _ int64) int64 { return n + scaler }, 0},
		{"precision=fp16,scaler=dynamic,found_inf=host,clip_where=host", "precision=fp16", func(n, _ int64) int64 { return n + scaler }, 2},
	} {
		for _, libraries := range []bool{false, true} {
			t.Run(fmt.Sprintf("libraries=%t,%s", libraries, tt.set), func(t *testing.T) {
				settings := func(set string) []string {
					all := append(slices.Clone(lessonSize), "window=2", "depth=3")
					if set != "" {
						all = append(all, strings.Split(set, ",")...)
					}
					return all
				}
				d := openSimulated(t, libraries)
				than := openOn(t, d, "small", settings(tt.than)...)
				plain := fourthStep(t, than)
				if err := than.Close(); err != nil {
					t.Error(err)
				}
				s := openOn(t, d, "small", settings(tt.set)...)
				m := fourthStep(t, s)
				if want := tt.launches(plain.Launches, microLaunches(than)); m.Launches != want || m.SyncPoints != tt.waits {
					t.Errorf("%d launches and %d waits, want %d and %d", m.Launches, m.SyncPoints, want, tt.waits)
				}
				trainsLikeHost(t, s, settings(tt.set))
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if use := d.Memory().InUse; use != 0 {
					t.Errorf("%d bytes are left", use)
				}
			})
		}
	}
}

// fourthStep returns the device's counters of the fourth step.
func fourthStep(t *testing.T, s *session) device.Meter {
	t.Helper()
	run(t, s, 3)
	before := s.mem.Dev.Meter()
	if err := s.Step(3, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	return s.mem.Dev.Meter().Sub(before)
}

// microLaunches counts the launches of a micro-batch: all but the weights' and the end of the step.
func microLaunches(s *session) (n int64) {
	for _, st := range s.Stages() {
		if !slices.Contains([]string{"weights", "clip", "optimizer"}, st.Name) {
			n += st.Cost().Launches
		}
	}
	return n
}

// trainsLikeHost compares four steps with the host's: the gradients, the loss, the loss's scale
// and how far the parameters have come.
func trainsLikeHost(t *testing.T, s *session, settings []string) {
	t.Helper()
	host := openSession(t, "small", settings...)
	host.batches = s.batches
	run(t, host, 4)
	var grads, moved op.ErrorNorm
	for i, p := range host.train.step.Params() {
		grads.Add(contents(t, s, s.train.step.Grad(i)), op.As[float64](contents(t, host, host.train.step.Grad(i))))
		a, b := contents(t, s, s.train.step.Params()[i].P), contents(t, host, p.P)
		for k, v := range p.Values {
			a[k], b[k] = a[k]-v, b[k]-v
		}
		moved.Add(a, op.As[float64](b))
	}
	// Adam divides a small gradient by itself, so that rounding decides where one is next to nothing.
	if g, m := grads.Relative(), moved.Relative(); !(g <= 4*s.prec.tolerance() && m <= 1e-2) {
		t.Errorf("after four steps the gradients are %.3g from the host's, and the parameters' change %.3g", g, m)
	}
	loss, want := float64(contents(t, s, s.train.loss)[0]), float64(contents(t, host, host.train.loss)[0])
	if !(math.Abs(loss-want) <= 4*s.prec.tolerance()*math.Abs(want)) {
		t.Errorf("after four steps the loss is %g, the host's %g", loss, want)
	}
	if got, want := contents(t, s, s.train.step.State()), contents(t, host, host.train.step.State()); got[0] != want[0] {
		t.Errorf("%g steps were made, %g on the host", got[0], want[0])
	}
}

// A loss's scale that overflows fp16 is halved, and the step left out, on the CUDA device as on
// the host, wherever the overflow is noticed: on the device Adam's launches change nothing, by the
// host they are not made.
func TestOverflowOnCUDA(t *testing.T) {
	const adam = 1 + 2 // the step's numbers, and ten tensors by fives
	for _, tt := range []struct {
		set    string
		launch int64 // fewer than in a step that is made
		waits  int64
	}{{"found_inf=device", 0, 0}, {"found_inf=host", adam, 1}} {
		t.Run(tt.set, func(t *testing.T) {
			settings := append(slices.Clone(lessonSize), "window=2", "depth=3", "precision=fp16", "scaler=dynamic", tt.set)
			s, host := openOn(t, openSimulated(t, false), "small", settings...), openSession(t, "small", settings...)
			host.batches = s.batches
			var state [2][]float32
			var counted [2]device.Meter // of the first step and the last, on the CUDA device
			for k, one := range []*session{host, s} {
				state[k] = contents(t, one, one.train.step.State())
				const scale = 1 << 30 // words 6 to 8 are it, its inverse and the cotangents' factor
				if got := state[k][6:9]; !slices.Equal(got, []float32{1 << 16, 1. / (1 << 16), 1 << 16}) {
					t.Fatalf("the scale is at first %v", got)
				}
				copy(state[k][6:], []float32{scale, 1. / scale, scale})
				if err := op.Send(one.mem.Dev, one.stream, one.train.step.State(), state[k]); err != nil {
					t.Fatal(err)
				}
				for i := range 16 {
					before := one.mem.Dev.Meter()
					if err := one.Step(i, loop.Silent{}); err != nil {
						t.Fatal(err)
					}
					counted[min(i, 1)] = one.mem.Dev.Meter().Sub(before)
				}
				state[k] = contents(t, one, one.train.step.State())
			}
			steps, scale := state[0][0], state[0][6]
			if steps == 0 || steps == 16 || scale != float32(int64(1)<<(30-16+int64(steps))) {
				t.Errorf("of 16 steps the host made %g, and the scale is %g", steps, scale)
			}
			if state[1][0] != steps || state[1][6] != scale {
				t.Errorf("%g steps and a scale of %g, on the host %g and %g", state[1][0], state[1][6], steps, scale)
			}
			if fewer := counted[1].Launches - counted[0].Launches; fewer != tt.launch || counted[0].SyncPoints != tt.waits || counted[1].SyncPoints != tt.waits {
				t.Errorf("a step that is left out has %d launches fewer and %d waits, another %d, want %d and %d", fewer, counted[0].SyncPoints, counted[1].SyncPoints, tt.launch, tt.waits)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
