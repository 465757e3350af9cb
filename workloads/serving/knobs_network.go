package serving

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/serving/resnet"
)

// The values of the knob network.
const (
	networkResidual  = "residual"
	networkSynthetic = "synthetic"
)

// shapeOf returns the values of the knobs that select the shape s.
func shapeOf(s resnet.Shape) gpuprof.Settings {
	return gpuprof.Settings{
		"source": strconv.Itoa(s.Source), "image": strconv.Itoa(s.Image), "width": strconv.Itoa(s.Width),
		"blocks": s.BlocksText(), "classes": strconv.Itoa(s.Classes),
	}
}

func networkKnobs() []workloads.Knob {
	small := resnet.Small()
	return append([]workloads.Knob{
		workloads.Choice("network", "residual computes the answers; synthetic takes the time that tau and alpha give", networkResidual, networkSynthetic).AsModel(),
		workloads.IntKnob("source", "pixels a side of a request's image", small.Source, 1, resnet.MostSide).AsModel(),
		workloads.IntKnob("image", "pixels a side of the crop that the network gets; above 64 its first convolution is 7x7 with a pooling behind it", small.Image, 1, resnet.MostSide).AsModel(),
		workloads.IntKnob("width", "channels of the network's first stage; each stage has twice those of the one before", small.Width, 1, resnet.MostWidth).AsModel(),
		workloads.Knob{Name: "blocks", Doc: "blocks of two convolutions in each stage", Default: small.BlocksText(), Accept: "up to 6 numbers from 1 to 64, such as 2-2-2-2", Parse: blocksText}.AsModel(),
		workloads.IntKnob("classes", "numbers in an answer", small.Classes, 1, resnet.MostClasses).AsModel(),
	}, methodKnobs()...)
}

// blocksText returns the canonical spelling of the knob blocks.
func blocksText(s string) (string, error) {
	n, err := resnet.ParseBlocks(s)
	if err != nil {
		return "", fmt.Errorf("is no list of up to 6 numbers from 1 to 64, such as 2-2-2-2")
	}
	return resnet.Shape{Blocks: n}.BlocksText(), nil
}

// methodKnobs returns the knobs that choose the implementation of the residual network.
func methodKnobs() []workloads.Knob {
	forward := stForward.name()
	preprocess := workloads.Choice("preprocess", "resize, crop and normalise each image on the host, or a batch of them on the device, to which bytes are then copied", resnet.OnHost, resnet.OnDevice)
	preprocess.Acts = []string{stPreprocess.name(), stPrepare.name(), stBatch.name(), loop.H2D}
	preprocess.Answers = []workloads.Answer{{Remedy: workloads.CollateFaster, To: resnet.OnDevice, When: gpuprof.Settings{"preprocess": resnet.OnHost}, Targets: []workloads.Target{{Stage: stPreprocess.name()}}}}
	preprocess.Advice = map[string]string{resnet.OnDevice: "copy the images as bytes, and resize, crop and normalise the batch on the GPU (torchvision.transforms.v2)"}
	preprocess.PyTorch = map[string]string{
		resnet.OnHost:   "batch = torch.stack([transform(image) for image in images]).to(device)",
		resnet.OnDevice: "batch = transform(torch.stack(images).to(device))  # bytes are copied, the device prepares them",
	}
	impl := workloads.Choice("impl", "convolution: auto (cuDNN where it is found, else implicit), implicit (a tiled product that gathers its operand), im2col (the operand is written out, then a product), direct (each output sums by itself), cudnn",
		resnet.Auto, resnet.Implicit, resnet.Im2col, resnet.Direct, resnet.CuDNN)
	impl.Acts = []string{forward}
	const conv2d = "out = F.conv2d(x, w)  # by cuDNN"
	impl.PyTorch = map[string]string{
		resnet.Auto: conv2d, resnet.CuDNN: conv2d,
		resnet.Implicit: "with torch.backends.cudnn.flags(enabled=False): out = F.conv2d(x, w)",
		resnet.Im2col:   "out = w.flatten(1) @ F.unfold(x, kernel_size, padding=padding, stride=stride)",
		resnet.Direct:   "# a kernel of your own (Triton) that sums each output by itself",
	}
	layout := workloads.Choice("layout", "memory order of activations: nhwc (channels last) or nchw", resnet.NHWC, resnet.NCHW)
	layout.Acts = []string{stPreprocess.name(), stPrepare.name(), forward}
	layout.Advice = map[string]string{resnet.NHWC: "model.to(memory_format=torch.channels_last), and the batch too"}
	layout.PyTorch = map[string]string{
		resnet.NHWC: "model, batch = model.to(memory_format=torch.channels_last), batch.to(memory_format=torch.channels_last)",
		resnet.NCHW: "model, batch = model.to(memory_format=torch.contiguous_format), batch.contiguous()",
	}
	bn := workloads.Choice("bn", "batch norms: fold (into the weights, once), fused (the end of a convolution), apart (a kernel each)", resnet.Fold, resnet.Fused, resnet.Apart)
	bn.Acts = []string{forward}
	bn.Answers = []workloads.Answer{{
		Remedy: workloads.Fuse, To: resnet.Fold, When: gpuprof.Settings{"bn": resnet.Apart},
		Targets: []workloads.Target{{Stage: forward, Kernels: []string{resnet.NormKernel}}}, PyTorch: "fold the batch norms into the convolutions (torch.nn.utils.fusion.fuse_conv_bn_eval)",
	}}
	bn.PyTorch = map[string]string{
		resnet.Fold:  "conv = torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)  # for each pair, once",
		resnet.Fused: "model = torch.compile(model)  # the norm becomes part of the kernel behind the convolution",
		resnet.Apart: "out = bn(conv(x))",
	}
	library := loop.LibraryKnob("products of impl=im2col in fp32 and tf32: auto (cuBLAS if it is found, else our own kernel), on (cuBLAS or nothing), off", forward)
	library.Answers[0].When = gpuprof.Settings{"library": "off", "impl": resnet.Im2col}
	autotune := loop.AutotuneKnob("when the workload opens, time implicit, im2col, direct and cudnn for each convolution in batches of max_batch, and take the fastest; the cost is reported")
	autotune.Acts = []string{forward}
	return []workloads.Knob{preprocess, impl, layout, bn, precisionKnob(), library, autotune, loop.ThreadsKnob("CPU threads of the host device; fewer than all leave a core to the sender of requests")}
}

// precisionKnob returns the knob precision. Our own kernels round operands while they read them, which saves no time:
// a lower precision only speeds up a library's kernels.
func precisionKnob() workloads.Knob {
	k := loop.PrecisionKnob("operands of convolutions are rounded to: fp32 (not at all), tf32, bf16 or fp16; sums are float32",
		gpuprof.Settings{"library": "off"}, stForward.name())
	fast := k.Answers[0]
	k.Answers = nil
	for _, impl := range []string{resnet.Auto, resnet.CuDNN, resnet.Im2col} { // the implementations that may use a library's kernels
		fast.When = gpuprof.Settings{"precision": resnet.FP32, "impl": impl}
		k.Answers = append(k.Answers, fast)
	}
	return k
}

// refuseNetwork refuses impossible networks, and knobs that the chosen network ignores.
func refuseNetwork(info device.Info, k settings, set gpuprof.Settings) error {
	if k.Network != networkSynthetic {
		return cmp.Or(refuseUnused(k, set, []workloads.Knob{tauKnob(), alphaKnob()}, "give --preset synthetic too"),
			workloads.RefuseThreads(info, k.Threads), refuseMethod(info, k), k.Refuse(info))
	}
	if k.Tau == 0 && k.Alpha == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting tau=0 and alpha=0: a batch would take no time").WithFix("give one of them a time")
	}
	return refuseUnused(k, set, networkKnobs()[1:], "leave it out, or use another preset than synthetic")
}

// refuseMethod refuses implementations that exclude each other.
func refuseMethod(info device.Info, k settings) error {
	switch {
	case !k.Autotune:
	case k.Impl != resnet.Auto && k.Impl != resnet.Implicit:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=%s: the search takes the way of each convolution", k.Impl).WithFix("leave impl out, or use autotune=off")
	case !k.Warm:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with warm=off: the search runs every kernel before the first request").WithFix("use one of the two")
	}
	if !k.Graph || k.Streams != streamsNew || k.Library == "off" {
		return nil
	}
	const text, fix = "setting graph=on with streams=new and impl=%s: %s replays a graph on the stream of its capture alone", "use streams=own or shared, or library=off"
	switch tunes, by := k.Autotune, k.By(info); {
	case info.Facts["cudnn"] != "" && (tunes || by == resnet.CuDNN):
		return gpuprof.Errorf(gpuprof.ErrUsage, text, k.Impl, "cuDNN").WithFix("%s", fix)
	case info.Facts["cublas"] != "" && (tunes || by == resnet.Im2col):
		return gpuprof.Errorf(gpuprof.ErrUsage, text, k.Impl, "cuBLAS").WithFix("%s", fix)
	}
	return nil
}

// refuseUnused refuses a changed value of any of the knobs, because they have no effect on the chosen network.
func refuseUnused(k settings, set gpuprof.Settings, knobs []workloads.Knob, fix string) error {
	for _, v := range knobs {
		if set[v.Name] != v.Default {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s=%s with network=%s: it takes no part in its answers", v.Name, set[v.Name], k.Network).WithFix("%s", fix)
		}
	}
	return nil
}
