package gruflow

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// tapeSaved is the value of the knob tape with which pass=forward records activations.
const tapeSaved = "saved"

// maxWindows is the largest number of windows whose recordings stay in memory.
const maxWindows = 1024

// tapeKnob returns the knob tape: whether pass=forward records activations although no backward pass follows.
func tapeKnob() workloads.Knob {
	k := workloads.Choice("tape", "what a level of pass=forward keeps for a way back that is not taken: off (nothing), or saved (r, z, n, u and the state, as a step that trains keeps them)", "off", tapeSaved)
	k.Acts = []string{"gru", "flow", "graph"}
	k.Advice = map[string]string{"off": "run inference and validation under torch.inference_mode(), so that nothing is kept for a backward"}
	k.PyTorch = map[string]string{"off": "with torch.inference_mode():", tapeSaved: "out, h = gru(x, h)  # gradients on, though no backward follows"}
	return k
}

// windowsKnob returns the knob windows_kept: the number of windows whose recordings stay in memory after their step.
func windowsKnob() workloads.Knob {
	k := workloads.IntKnob("windows_kept", "windows of levels whose record stays in memory: 1 (the next one takes its place), or the last K, as in a program that keeps K losses or states without detach()", 1, 1, maxWindows)
	k.Try, k.Acts = []string{"1"}, []string{"gru", "recompute", "flow", "flow_bwd", "gru_bwd", "grads"}
	k.Answers = []workloads.Answer{{Remedy: workloads.Detach, To: "1", Unless: gpuprof.Settings{"windows_kept": "1"}}}
	k.Advice = map[string]string{"1": "detach states and losses that outlive a step: h = h.detach(), total += loss.detach()"}
	k.PyTorch = map[string]string{"1": "losses.append(loss.detach())", workloads.AnyValue: "losses.append(loss)  # the last %s keep their graphs in memory"}
	return k
}

func recordsForward(k settings) bool { return k.Trains() || k.Tape == tapeSaved }

// refuseRecording returns an ErrUsage where tape or windows_kept conflicts with the other settings.
func refuseRecording(k settings) error {
	switch impl := k.Impl; {
	case k.Trains() && k.Tape != "off":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting tape=%s with pass=%s: a step that trains keeps all of it anyway", k.Tape, optim.Train).WithFix("use tape=off, or pass=%s", passForward)
	case !recordsForward(k) && k.WindowsKept != 1:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting windows_kept=%d with pass=%s and tape=off: such a step keeps no record", k.WindowsKept, k.Pass).WithFix("use windows_kept=1, tape=saved or pass=train")
	case !recordsForward(k):
		return nil
	case impl != implAuto && impl != implFused && k.Trains():
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=%s with pass=train: the way back takes the gates that impl=fused keeps", impl).WithFix("use impl=auto or fused")
	case impl != implAuto && impl != implFused:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=%s with tape=%s: a tape holds the gates that impl=fused keeps", impl, k.Tape).WithFix("use impl=auto or fused, or tape=off")
	case k.Graph && k.WindowsKept != 1:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting windows_kept=%d with graph=on: a captured graph writes its record to the same place every time", k.WindowsKept).WithFix("use windows_kept=1, or graph=off")
	}
	return nil
}

// recording holds the recorded levels of the current window and of earlier ones. Without checkpoints it holds all
// states and gates. With checkpoints it holds only the state before every few levels, from which these levels are
// recomputed.
type recording struct {
	u             *unroll
	window, every int
	states        []device.Buffer   // with checkpoints: the state [L,B,H] before each group of "every" levels
	earlier       [][]device.Buffer // for each further window: the buffers that recordRequests lists
	path          device.Buffer     // [window,B,pathWords]
}

// newRecording plans a recording; it allocates no device memory.
func newRecording(k settings, net *gru) *recording {
	r := &recording{window: windowOf(k), every: levelsKept(k)}
	r.u = newUnroll(net, r.every)
	if r.every < r.window || k.Checkpoint != 0 {
		r.states = make([]device.Buffer, ceilDiv(r.window, r.every))
	}
	for range max(1, k.WindowsKept) - 1 {
		r.earlier = append(r.earlier, make([]device.Buffer, len(r.recordRequests())))
	}
	return r
}

func (r *recording) windows() int { return 1 + len(r.earlier) }

// recordRequests lists the device memory that records one window (the levels that a training step runs forward, then
// backward) for its backward pass. With checkpoints these are the states at checkpoints, otherwise all states and
// gates.
func (r *recording) recordRequests() (list []request) {
	s := r.u.net.s
	for i := range r.states {
		list = append(list, request{"checkpoints", int64(s.L) * int64(s.B) * int64(s.H), &r.states[i]})
	}
	if r.states != nil {
		return list
	}
	for l := range r.u.layers {
		list = append(list, r.u.recordRequests(l)...)
	}
	return list
}

// requests lists the device memory of the recording, without the memory of the field u.
func (r *recording) requests() (list []request) {
	if r.states != nil {
		list = r.recordRequests()
	}
	for _, window := range r.earlier {
		for i, q := range r.recordRequests() {
			list = append(list, request{"earlier " + q.what, q.words, &window[i]})
		}
	}
	return append(list, request{"carriers' paths", int64(r.window) * int64(r.u.net.s.B) * pathWords, &r.path})
}

// bytes returns the sizes in bytes of the recordings of all kept windows, and of one window.
func (r *recording) bytes() (all, window int64) {
	window = 4 * wordsOf(r.recordRequests())
	return int64(r.windows()) * window, window
}

// rotateRecordings makes successive windows use the kept recordings in turn. Launches bound before this call keep using the
// first one.
func (s *session) rotateRecordings() {
	r := s.rec
	if len(r.earlier) == 0 {
		return
	}
	s.turns, s.Rings = r.windows(), map[device.Buffer][]device.Buffer{}
	for i, q := range r.recordRequests() {
		ring := []device.Buffer{*q.to}
		for _, window := range r.earlier {
			ring = append(ring, window[i])
		}
		s.Rings[*q.to] = ring
	}
}

// openRecording allocates the memory of a session that records its forward pass and has no backward pass.
func (s *session) openRecording() {
	r := s.rec
	allocateAll(&s.mem, append(r.recordRequests(), r.requests()...))
	s.rotateRecordings()
}
