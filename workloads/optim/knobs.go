package optim

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// Train is the value of the knob pass with which a step ends with an optimizer step.
const Train = "train"

// Settings are the knobs that the optimizer's part of a step reads: all of Knobs, and pass, precision and graph, which
// every workload with training has.
type Settings struct {
	Pass       string  `knob:"pass"`
	Precision  string  `knob:"precision"`
	Graph      bool    `knob:"graph"`
	Rate       float64 `knob:"lr"`
	Clip       float64 `knob:"clip"`
	Optimizer  string  `knob:"optimizer"`
	Accumulate int     `knob:"accumulate"`
	Scaler     string  `knob:"scaler"`
	FoundInf   string  `knob:"found_inf"`
	ClipWhere  string  `knob:"clip_where"`
	LossRead   int     `knob:"loss_read"` // steps between two reads of the loss, 0: never read
	Zero       string  `knob:"zero"`
}

// Trains reports whether a step updates the parameters.
func (k Settings) Trains() bool { return k.Pass == Train }

// Micro returns the number of micro-batches per step.
func (k Settings) Micro() int {
	if !k.Trains() {
		return 1
	}
	return max(1, k.Accumulate)
}

// readsNorm reports whether the host reads the norm of the gradients, readsFound whether it reads the flag of gradients
// that are not finite.
func (k Settings) readsNorm() bool  { return k.ClipWhere == OnHost }
func (k Settings) readsFound() bool { return Scaler{Mode: k.Scaler}.isOn() && k.FoundInf == OnHost }

// Values of the knobs clip_where, found_inf and zero.
const (
	OnDevice      = "device"
	OnHost        = "host"
	ZeroOverwrite = "overwrite"
	ZeroFill      = "fill"
	never         = "never"
)

// maxMicro is the maximum number of micro-batches per step.
const maxMicro = 4096

type lines = map[string]string

// Knobs returns the knobs of a training step, which all workloads that train share.
func Knobs() []workloads.Knob {
	return []workloads.Knob{
		workloads.FloatKnob("lr", "learning rate of training", 1e-3, 0, 10).AsModel(),
		workloads.FloatKnob("clip", "largest norm of all gradients together in training; larger ones are scaled down", 1, 0, 1e6).AsModel(),
		waysKnob(), accumulateKnob(), scalerKnob(), foundKnob(), clipKnob(), lossKnob(), zeroKnob(),
	}
}

func waysKnob() workloads.Knob {
	k := workloads.Choice("optimizer", "Adam of training: fused (one launch for every five tensors), foreach (a launch per operation), loop (a launch per operation and tensor)", Fused, Foreach, Loop)
	k.Acts = []string{"optimizer", "graph", gpuprof.StageLaunch}
	// One fused launch moves 28 bytes per parameter, separate operations 72.
	k.Answers = []workloads.Answer{{
		Remedy: workloads.Fuse, To: Fused, Unless: gpuprof.Settings{"optimizer": Fused},
		Targets: []workloads.Target{{Stage: "optimizer", Kernels: []string{"adam_part"}, Keeps: 28. / 72}},
	}}
	k.Advice = lines{Fused: "update all parameters in one launch: torch.optim.Adam(params, fused=True)"}
	k.PyTorch = lines{
		Fused: "torch.optim.Adam(params, fused=True)", Foreach: "torch.optim.Adam(params, foreach=True)", Loop: "torch.optim.Adam(params, foreach=False)",
	}
	return k
}

func accumulateKnob() workloads.Knob {
	k := workloads.IntKnob("accumulate", "micro-batches of a step of training, each of batch/K; their gradients are added with weight 1/K", 1, 1, maxMicro)
	k.Try, k.Acts = []string{"1", "2", "4"}, []string{workloads.AllStages}
	k.Advice = lines{"1": "one batch per optimizer step where it fits into memory", workloads.AnyValue: "several micro-batches per optimizer step where one batch does not fit into memory"}
	k.PyTorch = lines{"1": "loss.backward(); optimizer.step()", workloads.AnyValue: "(loss / %s).backward(); if step % %s == 0: optimizer.step(); optimizer.zero_grad()"}
	return k
}

func scalerKnob() workloads.Knob {
	k := workloads.Choice("scaler", "scale of the loss of training with precision=fp16: off, static (65,536) or dynamic (halved after an overflow, doubled after 2,000 steps without)", ScalerOff, ScalerStatic, ScalerDynamic)
	k.Acts = []string{"loss", "clip", "optimizer", "graph"}
	k.Advice = lines{ScalerOff: "bf16 needs no loss scale", workloads.AnyValue: "scale the loss where gradients in fp16 underflow"}
	k.PyTorch = lines{
		ScalerOff: "loss.backward()", ScalerStatic: "(loss * 65536).backward()  # and gradients / 65536",
		ScalerDynamic: "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",
	}
	return k
}

func foundKnob() workloads.Knob {
	k := workloads.Choice("found_inf", "where a scaler's overflow is noticed: device (Adam leaves the step out), host (the flag is read every step, with one wait)", OnDevice, OnHost)
	k.Acts = waitStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: OnDevice, Waits: waitsOnce(Settings.readsFound)}}
	k.Advice = lines{OnDevice: "an optimizer with fused=True takes the scaler's flag on the device; others read it every step"}
	k.PyTorch = lines{OnDevice: "torch.optim.Adam(params, fused=True)  # takes found_inf on the device", OnHost: "scaler.step(optimizer)  # reads found_inf with .item()"}
	return k
}

func clipKnob() workloads.Knob {
	k := workloads.Choice("clip_where", "where the factor of clipping stays: device, or host (the norm is read every step, with one wait)", OnDevice, OnHost)
	k.Acts = waitStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: OnDevice, Waits: waitsOnce(Settings.readsNorm)}}
	k.Advice = lines{OnDevice: "leave the norm of clip_grad_norm_ on the device; do not call .item() on it or compare it in Python"}
	k.PyTorch = lines{
		OnDevice: "torch.nn.utils.clip_grad_norm_(params, 1.0)  # its norm stays on the device",
		OnHost:   "norm = torch.nn.utils.clip_grad_norm_(params, 1.0).item()",
	}
	return k
}

func lossKnob() workloads.Knob {
	k := workloads.EveryKnob("loss_read", "when the host thread reads the loss of training, four bytes with one wait: never (it is copied without a wait), every step, or every K steps", never, never, "step")
	k.Try, k.Acts = []string{never, "step", "every:10"}, waitStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: never, Waits: workloads.CountWaits(func(k Settings) float64 { return workloads.CountPerStep(k.LossRead) })}}
	k.Advice = lines{never: "total += loss.detach() in place of loss.item(); read it once per epoch"}
	k.PyTorch = lines{never: "total += loss.detach()", "step": "total += loss.item()  # every step", workloads.AnyValue: "if step % %s == 0: print(loss.item())"}
	return k
}

func zeroKnob() workloads.Knob {
	k := workloads.Choice("zero", "gradients before a step of training: overwrite (the first ones are written), fill (zeros are written, and all are added)", ZeroOverwrite, ZeroFill)
	k.Acts = []string{"loss", "grads", "tensor_product_bwd", "graph"}
	// Predict only the time of the fills as the saving. Writing the first gradients instead of adding them saves more
	// time, which is not predicted.
	k.Answers = []workloads.Answer{{
		Remedy: workloads.WriteFirst, To: ZeroOverwrite, When: gpuprof.Settings{"zero": ZeroFill, "pass": Train},
		Targets: []workloads.Target{{Stage: "loss", Kernels: []string{"fill"}, Whole: true}},
	}}
	k.Advice = lines{ZeroOverwrite: "optimizer.zero_grad(set_to_none=True)"}
	k.PyTorch = lines{ZeroOverwrite: "optimizer.zero_grad(set_to_none=True)", ZeroFill: "optimizer.zero_grad(set_to_none=False)"}
	return k
}

// waitStages returns the stages that a wait of the host thread can lengthen.
func waitStages() []string {
	return []string{"sync", gpuprof.StageLaunch, gpuprof.StageGap, "collate", "backpressure"}
}

// waitsOnce returns a function for Answer.Waits: one wait per training step if reads(settings) is true, else none.
func waitsOnce(reads func(Settings) bool) func(gpuprof.Settings, map[string]float64) float64 {
	return workloads.CountWaits(func(k Settings) float64 {
		if !k.Trains() || !reads(k) {
			return 0
		}
		return 1
	})
}

// Refuse returns an error if the training knobs conflict with the other settings. Examples are a knob without effect, a
// number of micro-batches (accumulate) that does not divide the batch, and a wait of the host inside a captured graph.
// set holds the values of k by knob. batch is the name of the workload's batch knob, n its value.
func (k Settings) Refuse(set gpuprof.Settings, batch string, n int) error {
	if !k.Trains() {
		for _, v := range Knobs() {
			if !v.Model && set[v.Name] != v.Default {
				return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s=%s with pass=%s: only training has an optimizer step", v.Name, set[v.Name], k.Pass).WithFix("use %s=%s, or pass=train", v.Name, v.Default)
			}
		}
		return nil
	}
	switch {
	case n%k.Accumulate != 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting accumulate=%d with %s=%d: it does not divide the batch", k.Accumulate, batch, n).WithFix("use a divisor of %d", n)
	case k.Scaler != ScalerOff && k.Precision != "fp16":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting scaler=%s with precision=%s: a scale that is a power of two changes no bit there", k.Scaler, k.Precision).WithFix("use scaler=off, or precision=fp16")
	case k.Scaler == ScalerOff && k.FoundInf == OnHost:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting found_inf=host with scaler=off: without a scale no step looks for an overflow").WithFix("use found_inf=device, or scaler=dynamic")
	}
	for _, v := range [][2]string{{"found_inf", k.FoundInf}, {"clip_where", k.ClipWhere}} {
		if k.Graph && v[1] == OnHost {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s=host with graph=on: the host thread cannot wait inside a captured graph", v[0]).WithFix("use %s=device, or graph=off", v[0])
		}
	}
	return nil
}
