// Package kserve lets callers from outside send requests to the service over HTTP, by the
// KServe V2 inference protocol with its extension for binary tensors
// (https://github.com/kserve/open-inference-protocol).
//
// The package reads top down: kserve.go describes the model to callers, decode.go reads a request, numbers.go its
// numbers, elements.go splits its lists, encode.go writes an answer, server.go takes a request through the service,
// guard.go refuses requests by their sender, listener.go stamps the first byte of each request.
package kserve

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// The kinds of number that a tensor holds.
const (
	Uint8   = "UINT8"
	Float32 = "FP32"
)

// Limits of a request's body in bytes: the part without numbers, and the text of one number in JSON. A number's text
// may be a float64 with all its digits, on a line of its own at seven levels of four spaces. The brackets of a pixel
// are counted with its three colors.
const (
	mostEnvelope   = 64 << 10
	mostNumberText = 64
)

// mostMagnitude bounds the numbers of a request, so that no answer is infinite.
const mostMagnitude = 1e6

// Tensor describes the data of a request or of an answer.
type Tensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"` // Uint8 or Float32
	Shape    []int  `json:"shape"`
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes returns the size in memory.
func (t Tensor) Bytes() int { return t.Len() * t.elementBytes() }

func (t Tensor) elementBytes() int {
	if t.Datatype == Float32 {
		return 4
	}
	return 1
}

// Model describes the input and the output of the service.
type Model struct {
	Name    string
	In, Out Tensor
}

// MostBody returns the largest body of a request, in bytes: one sample as JSON, or as a binary tensor.
func (m *Model) MostBody() int64 { return mostEnvelope + mostNumberText*int64(m.In.Len()) }

// versions of a model: there is one.
const version = "1"

// metadata is the answer to a question about the model.
type metadata struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
	Platform string   `json:"platform"`
	Inputs   []Tensor `json:"inputs"`
	Outputs  []Tensor `json:"outputs"`
}

func (m *Model) metadata() metadata {
	return metadata{m.Name, []string{version}, "gpuprof", []Tensor{m.In}, []Tensor{m.Out}}
}

// unreadable returns the error of a request that cannot be read, with the expected form as its fix.
func unreadable(fix, format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading an infer request: "+format, args...).WithFix("%s", fix)
}

// shapeText formats a shape as JSON.
func shapeText[N int | int64](shape []N) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}
