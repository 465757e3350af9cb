// Package kserve lets callers from outside send requests to the service over HTTP, by the
// KServe V2 inference protocol with its extension for binary tensors
// (https://github.com/kserve/open-inference-protocol).
//
// The package reads top down: kserve.go is the model as callers see it, decode.go reads a
// request, numbers.go its numbers, elements.go splits its lists, encode.go writes an answer,
// server.go is the way of a request through the service, guard.go what it refuses for its sender,
// listener.go knows when its first byte came.
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

// What a request's body may hold, in bytes, beside its numbers, and for each number as JSON: a
// float64 with all its digits on a line of its own that seven brackets indent by four spaces each,
// or a color with its share of the lines of the brackets about a pixel.
const (
	mostEnvelope   = 64 << 10
	mostNumberText = 64
)

// mostMagnitude bounds the numbers of a request, so that no answer is infinite.
const mostMagnitude = 1e6

// Tensor is what a request or an answer holds.
type Tensor struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"` // Uint8 or Float32
	Shape    []int  `json:"shape"`
}

// Len is how many numbers it holds.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is what it takes in memory.
func (t Tensor) Bytes() int { return t.Len() * t.each() }

func (t Tensor) each() int {
	if t.Datatype == Float32 {
		return 4
	}
	return 1
}

// Model is what the service answers with.
type Model struct {
	Name    string
	In, Out Tensor
}

// MostBody is the largest body of a request, in bytes: one sample as JSON, or as a binary tensor.
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

// bad is a request that cannot be read: why, and how it should be.
func bad(fix, format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading an infer request: "+format, args...).WithFix("%s", fix)
}

// shapeText is a shape as JSON has it.
func shapeText[N int | int64](shape []N) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}
