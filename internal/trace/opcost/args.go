// Package opcost computes the arithmetic and the memory traffic of PyTorch operators from recorded arguments: FLOPs,
// and bytes if each operand is read once and each result written once. Its input is the name and the arguments of an
// operator; its output is a Cost, or the reason why there is none. It imports nothing of the profiler.
package opcost

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Arg is one recorded argument, by its position in the operator's schema.
type Arg struct {
	Type    string    // "float", "c10::BFloat16", "Scalar", "TensorList"; "" for a missing optional tensor
	Dims    []int64   // of a tensor
	Strides []int64   // of a tensor, in elements; nil if not recorded
	List    [][]int64 // dims of a tensor list
	Value   string    // of a number, a flag or a list of them: "1.", "True", "[1, 1]"
}

// Args are the arguments of one call.
type Args []Arg

// Separator separates the four recorded lists of an operator's arguments: "Input Dims", "Input type", "Input Strides"
// and "Concrete Inputs", each JSON or empty.
const Separator = "\u241f"

// Parse parses the four lists; ok is false without types, or if a list is not valid JSON.
func Parse(text string) (args Args, ok bool) {
	parts := strings.Split(text, Separator)
	if len(parts) != 4 {
		return nil, false
	}
	var types, values []string
	var dims, strides []json.RawMessage
	for i, into := range []any{&dims, &types, &strides, &values} {
		if parts[i] != "" && json.Unmarshal([]byte(parts[i]), into) != nil {
			return nil, false
		}
	}
	if len(dims) == 0 || len(types) != len(dims) {
		return nil, false
	}
	args = make(Args, len(types))
	for i := range args {
		a := &args[i]
		a.Type = types[i]
		a.Dims, a.List, ok = parseShape(dims[i])
		if !ok {
			return nil, false
		}
		if i < len(strides) {
			a.Strides, _, _ = parseShape(strides[i])
		}
		if i < len(values) {
			a.Value = values[i]
		}
	}
	return args, true
}

// parseShape parses the dims of a tensor, or of a tensor list.
func parseShape(text json.RawMessage) (dims []int64, list [][]int64, ok bool) {
	if json.Unmarshal(text, &dims) == nil {
		return dims, nil, isValidShape(dims)
	}
	if json.Unmarshal(text, &list) != nil {
		return nil, nil, false
	}
	for _, d := range list {
		if !isValidShape(d) {
			return nil, nil, false
		}
	}
	return nil, list, true
}

func isValidShape(dims []int64) bool {
	for _, n := range dims {
		if n < 0 {
			return false
		}
	}
	return true
}

// Largest returns elements and bytes of the tensor with most elements; 0 without tensors of a known type.
func (a Args) Largest() (n, bytes float64) {
	for i := range a {
		if size := sizes[a[i].Type]; size > 0 && len(a[i].Dims) > 0 && countElements(a[i].Dims) > n {
			n = countElements(a[i].Dims)
			bytes = n * float64(size)
		}
	}
	return n, bytes
}

// Shapes formats the dims of the tensor arguments: "[33, 40] [40, 56]".
func (a Args) Shapes() string {
	var out []string
	for i := range a {
		if sizes[a[i].Type] == 0 || len(a[i].Dims) == 0 {
			continue
		}
		var n []string
		for _, d := range a[i].Dims {
			n = append(n, strconv.FormatInt(d, 10))
		}
		out = append(out, "["+strings.Join(n, ", ")+"]")
	}
	return strings.Join(out, " ")
}

// sizes are the bytes per element by the names of types, in recordings from 2021 on.
var sizes = map[string]int64{
	"float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "long int": 8, "int": 4, "short": 2, "short int": 2,
	"signed char": 1, "unsigned char": 1, "bool": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
	"c10::complex<c10::Half>": 4, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2fnuz": 1,
	"ComplexFloat": 8, "ComplexDouble": 16, "half": 2, "bfloat16": 2, "complexfloat": 8, "complexdouble": 16,
	"Byte": 1, "Char": 1, "Short": 2, "Float8_e4m3fn": 1, "Float8_e5m2": 1,
	"long": 8, "long long": 8, "Long": 8, "Int": 4, "Bool": 1, "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2,
}

// ElementBytes returns the bytes per element of a type, 0 unknown.
func ElementBytes(name string) int64 { return sizes[name] }

// countElements returns the product of dims, 1 for a scalar tensor.
func countElements(dims []int64) float64 {
	n := 1.0
	for _, d := range dims {
		n *= float64(d)
	}
	return n
}
