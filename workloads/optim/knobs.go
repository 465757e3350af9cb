package optim

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// Train is the value of the knob pass with which a step ends with an optimizer step.
const Train = "train"

// Trains reports whether a step updates the parameters.
func Trains(set gpuprof.Settings) bool { return set["pass"] == Train }

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
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: OnDevice, Waits: waitsOnce("found_inf", OnHost, "scaler", ScalerOff)}}
	k.Advice = lines{OnDevice: "an optimizer with fused=True takes the scaler's flag on the device; others read it every step"}
	k.PyTorch = lines{OnDevice: "torch.optim.Adam(params, fused=True)  # takes found_inf on the device", OnHost: "scaler.step(optimizer)  # reads found_inf with .item()"}
	return k
}

func clipKnob() workloads.Knob {
	k := workloads.Choice("clip_where", "where the factor of clipping stays: device, or host (the norm is read every step, with one wait)", OnDevice, OnHost)
	k.Acts = waitStages()
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: OnDevice, Waits: waitsOnce("clip_where", OnHost, "", "")}}
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
	k.Answers = []workloads.Answer{{Remedy: workloads.ReadTogether, To: never, Waits: func(set gpuprof.Settings, _ map[string]float64) float64 {
		if n := set.Every("loss_read"); n > 0 {
			return 1 / float64(n)
		}
		return 0
	}}}
	k.Advice = lines{never: "total += loss.detach() in place of loss.item(); read it once per epoch"}
	k.PyTorch = lines{never: "total += loss.detach()", "step": "total += loss.item()  # every step", workloads.AnyValue: "if step % %s == 0: print(loss.item())"}
	return k
}

func zeroKnob() workloads.Knob {
	k := workloads.Choice("zero", "gradients before a step of training: overwrite (the first ones are written), fill (zeros are written, and all are added)", ZeroOverwrite, ZeroFill)
	k.Acts = []string{"loss", "grads", "tensor_product_bwd", "graph"}
	// Claim only the time of the fills. Writing the first gradients instead of adding them saves time too, but that is not
	// claimed.
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

// waitsOnce returns a Waits function for a knob. The function returns one wait per training step if set[knob] == value,
// but none if set[unless] == is.
func waitsOnce(knob, value, unless, is string) func(gpuprof.Settings, map[string]float64) float64 {
	return func(set gpuprof.Settings, _ map[string]float64) float64 {
		if !Trains(set) || set[knob] != value || unless != "" && set[unless] == is {
			return 0
		}
		return 1
	}
}

// Refuse returns an error for a training knob that has no effect with the other settings. batch is the name of the knob
// that accumulate divides.
func Refuse(set gpuprof.Settings, batch string) error {
	usage := func(format string, args ...any) *gpuprof.Error {
		return gpuprof.Errorf(gpuprof.ErrUsage, format, args...)
	}
	if !Trains(set) {
		for _, k := range Knobs() {
			if !k.Model && set[k.Name] != k.Default {
				return usage("setting %s=%s with pass=%s: only training has an optimizer step", k.Name, set[k.Name], set["pass"]).WithFix("use %s=%s, or pass=train", k.Name, k.Default)
			}
		}
		return nil
	}
	scaler, precision := set["scaler"], set["precision"]
	switch {
	case set.Int(batch)%set.Int("accumulate") != 0:
		return usage("setting accumulate=%s with %s=%s: it does not divide the batch", set["accumulate"], batch, set[batch]).WithFix("use a divisor of %s", set[batch])
	case scaler != ScalerOff && precision != "fp16":
		return usage("setting scaler=%s with precision=%s: a scale that is a power of two changes no bit there", scaler, precision).WithFix("use scaler=off, or precision=fp16")
	case scaler == ScalerOff && set["found_inf"] == OnHost:
		return usage("setting found_inf=host with scaler=off: without a scale no step looks for an overflow").WithFix("use found_inf=device, or scaler=dynamic")
	}
	if set.On("graph") {
		for _, k := range []string{"found_inf", "clip_where"} {
			if set[k] == OnHost {
				return usage("setting %s=host with graph=on: the host thread cannot wait inside a captured graph", k).WithFix("use %s=device, or graph=off", k)
			}
		}
	}
	return nil
}
