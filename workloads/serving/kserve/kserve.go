// Package kserve lets callers from outside send requests to the service over HTTP, by the KServe V2 inference
// protocol with its extension for binary tensors (https://github.com/kserve/open-inference-protocol).
//
// Read top down: kserve.go describes the model to callers, decode.go reads a request, numbers.go its numbers,
// elements.go splits its lists, encode.go writes an answer, server.go passes a request through the service, guard.go
// refuses requests of foreign web pages, listener.go records the arrival of each request's first byte.
package kserve

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Number types of a tensor.
const (
	Uint8   = "UINT8"
	Float32 = "FP32"
)

// Limits of a request's body in bytes: mostEnvelope is for everything except numbers, mostNumberText for one number
// in JSON. A number may be a float64 with all digits, on a line of its own, indented by seven levels of four spaces.
// The limit for a pixel's three colors also covers its brackets.
const (
	mostEnvelope   = 64 << 10
	mostNumberText = 64
)

// mostMagnitude is the largest magnitude of a number in a request, so that answers stay finite.
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

// Bytes returns the size of the data in memory.
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

// MostBody returns the number of bytes of the largest request body: one sample, as JSON or as a binary tensor.
func (m *Model) MostBody() int64 { return mostEnvelope + mostNumberText*int64(m.In.Len()) }

const version = "1"

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

// unreadable returns the error for a request that cannot be decoded. The argument fix describes the expected form.
func unreadable(fix, format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "reading an infer request: "+format, args...).WithFix("%s", fix)
}

func shapeText[N int | int64](shape []N) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}
