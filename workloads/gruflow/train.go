package gruflow

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Values of the knobs pass, window and checkpoint that the code compares with.
const (
	passForward   = "forward"
	windowDepth   = "depth"
	checkpointOff = "off"
)

// maxWindow is the largest number of levels that a step runs (its window).
const maxWindow = 4096

func trainKnobs() []workloads.Knob {
	pass := workloads.Choice("pass", "what a step computes: forward (one level) or train (window levels, their back-propagation and an optimizer step)", passForward, optim.Train).AsModel()
	window := countKnob("window", "levels of a step of pass=train: depth (as many as a carrier passes) or K; the carriers go on from step to step, and no gradient does", windowDepth, maxWindow).AsModel()
	checkpoint := countKnob("checkpoint", "states kept for the way back of pass=train: off (all of the window), or K (every K levels, and the levels between are computed again)", checkpointOff, maxWindow)
	// A window takes window/K states at checkpoints, and for each of K levels 5T arrays of that size (a state and four
	// gates per time step). With T = 1 the memory is least near K = sqrt(window/5), about 3 for 40 levels. Acts has gru
	// and flow because the forward pass copies the states at checkpoints.
	checkpoint.Try, checkpoint.Acts = []string{"3", "1", "8"}, []string{"gru", "flow", "recompute", "graph"}
	checkpoint.Advice = map[string]string{workloads.AnyValue: "keep activations where memory allows, and make them again where it does not"}
	checkpoint.PyTorch = map[string]string{
		checkpointOff:      "h = gru(x, h)  # every activation is kept for the backward",
		workloads.AnyValue: "h = torch.utils.checkpoint.checkpoint(levels, x, h, use_reentrant=False)  # K levels at a time",
	}
	return append([]workloads.Knob{pass, window, checkpoint, tapeKnob(), windowsKnob()}, optim.Knobs()...)
}

// countKnob returns a knob whose value is the given word or a number from 1 to most.
func countKnob(name, doc, word string, most int) workloads.Knob {
	return workloads.Knob{Name: name, Doc: doc, Default: word, Values: []string{word}, Accept: fmt.Sprintf("integer from 1 to %d", most),
		Parse: func(s string) (string, error) {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > most {
				return "", fmt.Errorf("is not a whole number from 1 to %d", most)
			}
			return strconv.Itoa(n), nil
		}}
}

func windowOf(k settings) int {
	if !k.Trains() {
		return 1
	}
	return cmp.Or(k.Window, k.D)
}

func levelsKept(k settings) int { return cmp.Or(k.Checkpoint, windowOf(k)) }

// refuseTraining refuses settings that conflict with pass=train.
func refuseTraining(k settings, set gpuprof.Settings) error {
	if err := k.Refuse(set, "flows", k.Flows); err != nil {
		return err
	}
	if k.Graph && k.Accumulate > 1 && k.ResetStats != "off" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting reset_stats=%s with graph=on and accumulate=%d: the counter is reset at every micro-batch, and a captured graph has all of them", k.ResetStats, k.Accumulate).WithFix("use reset_stats=off, or graph=off")
	}
	if err := refuseRecording(k); err != nil {
		return err
	}
	if !k.Trains() {
		for _, v := range []struct {
			knob, word string
			n          int
		}{{"window", windowDepth, k.Window}, {"checkpoint", checkpointOff, k.Checkpoint}} {
			if v.n != 0 {
				return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s=%d with pass=%s: a step without a way back is one level", v.knob, v.n, k.Pass).WithFix("use %s=%s, or pass=train", v.knob, v.word)
			}
		}
		return nil
	}
	if w := windowOf(k); k.Checkpoint > w {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting checkpoint=%d with a window of %d levels: there are no more states than levels", k.Checkpoint, w).WithFix("use checkpoint=off, one up to the window, or a larger window")
	}
	return nil
}

// leastCheckpoint estimates the K for which a window takes the least memory, with a checkpoint before every K levels.
// There are window/K states at checkpoints, and five arrays of that size for each time step of K recorded levels; their
// sum is least at K = sqrt(window/(5 steps)).
func leastCheckpoint(window, steps int) int {
	return max(1, int(math.Round(math.Sqrt(float64(window)/float64(5*steps)))))
}

// training is the additional state of pass=train. A step runs a window of levels forward, the same levels backward, and
// one optimizer step on refLoss of the energy that carriers deposited there.
type training struct {
	*recording
	// Shapes [D], [D+1], [B,2], [B], [D+B], [B,outputs].
	target, ddose, dplace, de, losses, dp device.Buffer
	loss                                  device.Buffer // [1]
	step                                  optim.Step
	sum                                   *op.Bound
	parts                                 []optim.Part
	done                                  int // steps since the start
}

// newTraining plans the training state; it allocates no device memory.
func newTraining(k settings, r *recording) *training {
	return &training{recording: r, step: optim.StepOf(k.Settings)}
}

// requests lists the device memory of training, without the memory of the unrolled GRU and of the optimizer.
func (t *training) requests() []request {
	s := t.u.net.s
	b, d := int64(s.B), int64(s.D)
	return append(t.recording.requests(),
		request{"targets", d, &t.target},
		request{"cotangents of doses", d + 1, &t.ddose}, request{"cotangents of places", 2 * b, &t.dplace}, request{"cotangents of energies", b, &t.de},
		request{"losses", d + b, &t.losses}, request{"the loss", 1, &t.loss}, request{"cotangents of the projection", outputs * b, &t.dp})
}

// outerShapes returns the shapes of all gradients that are sums of outer products over rows.
func (t *training) outerShapes() [][2]int {
	return append(t.u.outerShapes(), [2]int{outputs, t.u.net.s.H})
}

// openTraining allocates the training memory. The carriers and the projection must be allocated before.
func (s *session) openTraining() {
	t := s.train
	t.u.open(&s.mem, t.outerShapes()...)
	allocateAll(&s.mem, t.requests())
	if s.mem.Err != nil {
		return
	}
	s.rotateRecordings()
	var all []optim.Param
	for l, p := range s.params.layers {
		to := t.u.layers[l].p
		all = append(all,
			optim.Param{Name: fmt.Sprintf("weight_ih_l%d", l), Values: p.wi, P: to.wi}, optim.Param{Name: fmt.Sprintf("weight_hh_l%d", l), Values: p.wh, P: to.wh},
			optim.Param{Name: fmt.Sprintf("bias_ih_l%d", l), Values: p.bi, P: to.bi}, optim.Param{Name: fmt.Sprintf("bias_hh_l%d", l), Values: p.bh, P: to.bh})
	}
	all = append(all, optim.Param{Name: "projection", Values: s.params.proj, P: s.flow.proj}, optim.Param{Name: "projection bias", Values: s.params.bias, P: s.flow.bias})
	if s.mem.Err = t.step.Open(&s.mem, s.stream, all); s.mem.Err != nil {
		return
	}
	for l := range t.u.layers {
		t.u.layers[l].g = layerBuffers{wi: t.step.Grad(4 * l), wh: t.step.Grad(4*l + 1), bi: t.step.Grad(4*l + 2), bh: t.step.Grad(4*l + 3)}
	}
	s.mem.Err = op.Send(s.mem.Dev, s.stream, t.target, drawTargets(s.shape, t.window, s.seed))
}

func (t *training) projection() (proj, bias device.Buffer) {
	n := 4 * len(t.u.layers)
	return t.step.Grad(n), t.step.Grad(n + 1)
}

// drawTargets draws the loss's target for each of the D levels: the energy that carriers should deposit there while a
// step runs its window of levels. A target is 0.5 to 1.5 times the usual deposit of an untrained model.
func drawTargets(s shape, window int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 6))
	usual := 0.1 * float64(s.B) * float64(window) / float64(s.D)
	v := make([]float32, s.D)
	for i := range v {
		v[i] = float32(usual * (0.5 + rng.Float64()))
	}
	return v
}
