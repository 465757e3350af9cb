package gruflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

// tensor is a JSON array of numbers, nested or flat, with its shape in the JSON text.
type tensor struct {
	shape []int
	data  []float64
}

// maxRank is the deepest nesting of arrays that is accepted; a GRU's arrays have three axes.
const maxRank = 8

// UnmarshalJSON implements json.Unmarshaler. It reads token by token, to reject other values and ragged rows
// precisely.
func (t *tensor) UnmarshalJSON(b []byte) error {
	*t = tensor{}
	dec := json.NewDecoder(bytes.NewReader(b))
	var count []int // values so far in each open array
	for {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		switch v := tok.(type) {
		case float64:
			if len(count) == 0 {
				return fmt.Errorf("%v stands where an array is expected", v)
			}
			if err := t.addValue(v, count); err != nil {
				return err
			}
		case json.Delim:
			switch v {
			case '[':
				if len(count) == maxRank {
					return fmt.Errorf("arrays are nested deeper than %d", maxRank)
				}
				count = append(count, 0)
			case ']':
				if err := t.close(count); err != nil {
					return err
				}
				if count = count[:len(count)-1]; len(count) == 0 {
					return nil
				}
				count[len(count)-1]++
			default:
				return fmt.Errorf("an object stands where numbers are expected")
			}
		case nil:
			// A single null means "not given". Inside an array some programs write null for NaN.
			if len(count) > 0 {
				return fmt.Errorf("null stands where a number is expected")
			}
			return nil
		default:
			return fmt.Errorf("%v stands where a number is expected", tok)
		}
	}
}

func (t *tensor) addValue(v float64, count []int) error {
	t.setAxes(len(count))
	if len(count) != len(t.shape) {
		return gpuprof.Errorf(nil, "rows differ in depth").WithFix("write them all alike")
	}
	count[len(count)-1]++
	t.data = append(t.data, v)
	return nil
}

func (t *tensor) setAxes(axes int) {
	if len(t.shape) == 0 {
		t.shape = slices.Repeat([]int{-1}, axes)
	}
}

// close returns an error if the array that has just ended is longer or shorter than the arrays next to it. count holds
// the number of values so far in each open array.
func (t *tensor) close(count []int) error {
	axis, n := len(count)-1, count[len(count)-1]
	t.setAxes(len(count))
	if axis >= len(t.shape) {
		return gpuprof.Errorf(nil, "rows differ in depth").WithFix("write them all alike")
	}
	if t.shape[axis] < 0 {
		t.shape[axis] = n
	}
	if t.shape[axis] != n {
		return gpuprof.Errorf(nil, "rows differ in length, %d and %d", t.shape[axis], n).WithFix("write them all alike")
	}
	return nil
}

// checkShape returns an error unless the array has the wanted shape, or is flat with as many values.
func (t tensor) checkShape(name string, want ...int) error {
	n := 1
	for _, w := range want {
		n *= w
	}
	if slices.Equal(t.shape, want) || len(t.shape) == 1 && len(t.data) == n {
		return nil
	}
	return fmt.Errorf("%s has shape %v, the case needs %v", name, t.shape, want)
}

// floatView returns integers as the floats with the same bits, for copying.
func floatView(v []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

func intView(v []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
