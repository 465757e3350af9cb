package resnet

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const vectorKind = "resnet"

// numbers holds an array's values in row-major order, read from JSON arrays, nested or flat, or from a base64 text of
// little-endian float32.
type numbers []float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *numbers) UnmarshalJSON(b []byte) error {
	*n = nil
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw)%4 != 0 {
			return errors.New("a text is no base64 of whole float32 values")
		}
		for at := 0; at < len(raw); at += 4 {
			*n = append(*n, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[at:]))))
		}
		return nil
	}
	var err error
	*n, err = loop.Numbers(b)
	return err //nolint:wrapcheck // the case's name is put before it
}

// vectorCase is a network with images and the logits that another program computed.
type vectorCase struct {
	Kind    string             `json:"kind"`
	Image   int                `json:"image"`
	Width   int                `json:"width"`
	Blocks  []int              `json:"blocks"`
	Classes int                `json:"classes"`
	Weights map[string]numbers `json:"weights"`
	X       numbers            `json:"x"`   // [images,3,image,image], preprocessed
	Out     numbers            `json:"out"` // [images,classes]
}

// CheckVectors compares every case of a file of vectors in float64, and in float32 on the device. The float32 result
// is the worst over several implementations of the convolutions.
func CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error) {
	return loop.Vectors(ctx, file, name, "docs/serving.md", func(c *vectorCase) string { return c.Kind },
		func(c *vectorCase) ([]gpuprof.CaseResult, error) { return c.run(ctx, d) })
}

func (c *vectorCase) run(ctx context.Context, d device.Device) ([]gpuprof.CaseResult, error) {
	if c.Kind != vectorKind {
		return nil, gpuprof.Errorf(nil, "unknown kind %q", c.Kind).WithFix("use %s%s", vectorKind, gpuprof.DidYouMean(c.Kind, []string{vectorKind}))
	}
	s := Shape{Source: c.Image, Image: c.Image, Width: c.Width, Blocks: c.Blocks, Classes: c.Classes}
	if err := s.Check(); err != nil {
		return nil, err
	}
	pixels := 3 * s.Image * s.Image
	n := len(c.X) / pixels
	if n < 1 || len(c.X) != n*pixels || len(c.Out) != n*s.Classes {
		return nil, gpuprof.Errorf(nil, "x has %d values and out %d", len(c.X), len(c.Out)).WithFix("give images of %d values and %d logits for each", pixels, s.Classes)
	}
	w, err := c.parameters(s)
	if err != nil {
		return nil, err
	}
	var wide op.ErrorNorm
	for i := range n {
		wide.AddWide(refNetwork(s, w, c.X[i*pixels:(i+1)*pixels]).Values, c.Out[i*s.Classes:(i+1)*s.Classes])
	}
	worst := gpuprof.CaseResult{Precision: "float32", Tolerance: tolerance}
	for _, o := range []Options{{}, {Layout: NCHW}, {Impl: Im2col, BN: Fused}, {Impl: Im2col, Layout: NCHW, Library: "off"}, {Impl: Direct, BN: Apart}} {
		o.Shape, o.Weights, o.MaxBatch, o.Slots = s, w, n, 1
		got, err := Classify(ctx, d, o, op.As[float32](c.X))
		if err != nil {
			return nil, err
		}
		var e op.ErrorNorm
		e.Add(got, c.Out)
		if r := gpuprof.Number(e.Relative()); op.Worse(worst.RelativeError, r) {
			worst.RelativeError = r
		}
	}
	return []gpuprof.CaseResult{{RelativeError: gpuprof.Number(wide.Relative()), Precision: "float64", Tolerance: loop.Tolerance64}, worst}, nil
}

// parameters collects the arrays of the case by their names in PyTorch's ResNet.
func (c *vectorCase) parameters(s Shape) (*Weights, error) {
	w := &Weights{}
	for _, cv := range s.convolutions() {
		weight, norm := torchNames(cv.name)
		l := Layer{}
		arrays := map[string]*[]float32{weight + ".weight": &l.Weight}
		if cv.isLinear {
			arrays[weight+".bias"] = &l.Bias
		} else {
			arrays[norm+".weight"], arrays[norm+".bias"] = &l.Scale, &l.Shift
			arrays[norm+".running_mean"], arrays[norm+".running_var"] = &l.Mean, &l.Var
		}
		for name, to := range arrays {
			v, ok := c.Weights[name]
			if !ok {
				return nil, gpuprof.Errorf(nil, "weight %s is missing", name).WithFix("give the arrays of the network's state_dict")
			}
			*to = op.As[float32](v)
		}
		w.Layers = append(w.Layers, l)
	}
	if err := w.checkSizes(s); err != nil {
		return nil, err
	}
	return w, nil
}

func torchNames(name string) (weight, norm string) {
	switch name {
	case "stem":
		return "conv1", "bn1"
	case "linear":
		return "fc", ""
	}
	block := strings.Replace(name[:strings.LastIndex(name, ".")+1], "stage", "layer", 1)
	switch name[strings.LastIndex(name, ".")+1:] {
	case "shortcut":
		return block + "downsample.0", block + "downsample.1"
	case "conv2":
		return block + "conv2", block + "bn2"
	}
	return block + "conv1", block + "bn1"
}

// Classify opens a network and returns the logits of preprocessed images [images,3,image,image].
func Classify(ctx context.Context, d device.Device, o Options, images []float32) (out []float32, err error) {
	s, err := d.NewStream("main")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	n, err := Open(ctx, d, s, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Give(s, 0, images); err != nil {
		return nil, err
	}
	count := len(images) / (3 * o.Image * o.Image)
	if err := n.EnqueueAll(s, 0, count); err != nil {
		return nil, err
	}
	return op.Receive(d, s, n.Logits(0), 0, count*o.Classes)
}

// Give copies preprocessed images [images,3,image,image] to a slot, in the network's layout, and waits.
func (n *Net) Give(s device.Stream, slot int, images []float32) error {
	plane := n.o.Image * n.o.Image
	if n.o.Layout == NHWC {
		turned := make([]float32, len(images))
		for at, v := range images {
			image, ch, p := at/(3*plane), at/plane%3, at%plane
			turned[(image*plane+p)*3+ch] = v
		}
		images = turned
	}
	return op.Send(n.dev, s, n.slots[slot].act[actInput], images)
}
