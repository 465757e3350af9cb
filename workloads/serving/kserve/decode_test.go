package kserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// image is a model of 2x3 pixels.
func image() Model {
	return Model{Name: "image", In: Tensor{"image", Uint8, []int{1, 2, 3, 1}}, Out: Tensor{"logits", Float32, []int{1, 2}}}
}

func imageBody(data string) string {
	return `{"inputs":[{"name":"image","datatype":"UINT8","shape":[1,2,3,1],"data":` + data + `}]}`
}

// Numbers come flat or nested like the shape; what is nested in another way, or is no byte, is
// refused.
func TestNumbers(t *testing.T) {
	m := image()
	for _, data := range []string{"[1,2,3,4,5,255]", " [ 1 , 2,\n3,4,\t5,255 ] ", "[[[[1],[2],[3]],[[4],[5],[255]]]]"} {
		into := make([]byte, m.In.Bytes())
		if _, err := m.Decode(into, []byte(imageBody(data)), NoHeader); err != nil || !slices.Equal(into, []byte{1, 2, 3, 4, 5, 255}) {
			t.Errorf("%s: %v, %v", data, into, err)
		}
	}
	for data, words := range map[string]string{
		"[1,2,3,4,5]":                       "image has 5 numbers; send 6",
		"[1,2,3,4,5,6,7]":                   "image has 7 numbers",
		"[1,2,3,4,5,256]":                   "number 5 of image is 256; send whole numbers from 0 to 255",
		"[1,2,3,4,5,-1]":                    "number 5 of image is -1",
		"[1,2,3,4,5,1.5]":                   "number 5 of image is 1.5",
		"[1,2,3,4,5,1e2]":                   "number 5 of image is 1e2",
		"[[1,2,3],[4,5,6]]":                 "nested in another way",
		"[[[[1],[2]],[[3],[4]],[[5],[6]]]]": "nested in another way",
		"[[[[1],[2],[3]],[[4],[5,6]]]]":     "nested in another way",
		"[1,[2,3,4,5,6]]":                   "nested in another way",
		"[1,2,3,4,5,true]":                  "data of image holds",
		"{\"a\":1}":                         "send an array of numbers",
		"\"\"":                              "send an array of numbers",
		"[{}]":                              "send numbers",
	} {
		_, err := m.Decode(make([]byte, m.In.Bytes()), []byte(imageBody(data)), NoHeader)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", data, err, words)
		}
	}
}

// An answer says what it was asked for, as JSON numbers that read back exactly. What is not a
// number is no answer.
func TestEncode(t *testing.T) {
	m := image()
	out := make([]byte, m.Out.Bytes())
	for i, v := range []float32{math.MaxFloat32, -1.0 / 3} {
		putNative(out[4*i:], v)
	}
	body, header, ok := m.Encode(Asked{ID: "a\"b"}, out)
	var got answered
	if err := json.Unmarshal(body, &got); err != nil || !ok || header != NoHeader || got.ID != "a\"b" || !slices.Equal(got.Outputs[0].Data, []float32{math.MaxFloat32, -1.0 / 3}) {
		t.Errorf("%s, %d, %v, %v", body, header, ok, err)
	}
	body, header, ok = m.Encode(Asked{Binary: true}, out)
	if !ok || len(body) != header+8 || littleFloat(body[header+4:]) != -1.0/3 || !json.Valid(body[:header]) {
		t.Errorf("%q, %d, %v", body, header, ok)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		putNative(out, float32(v))
		if _, _, ok := m.Encode(Asked{}, out); ok {
			t.Errorf("%g is an answer", v)
		}
	}
}

// FuzzInfer: whatever comes in is refused with one sentence that says what to do, or decoded
// to the numbers that encoding/json sees, too.
func FuzzInfer(f *testing.F) {
	head := `{"inputs":[{"name":"image","datatype":"UINT8","shape":[1,2,3,1],"parameters":{"binary_data_size":6}}]}`
	f.Add([]byte(imageBody("[1,2,3,4,5,6]")), "")
	f.Add([]byte(imageBody("[[[[1],[2],[3]],[[4],[5],[255]]]]")), "")
	f.Add([]byte(head+"abcdef"), fmt.Sprint(len(head)))
	f.Add([]byte(asks(0.5)), "")
	f.Add([]byte(`{"inputs":[{"data":[[[[[[[[[[`), "-1")
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		for _, m := range []Model{image(), one()} {
			into := make([]byte, m.In.Bytes())
			header, err := HeaderLength(length, len(body))
			if err == nil {
				_, err = m.Decode(into, body, header)
			}
			if err != nil {
				if _, fix := gpuprof.FixOf(err); fix == "" || !errors.Is(err, gpuprof.ErrInput) || len(err.Error()) > 600 {
					t.Errorf("%v", err)
				}
				continue
			}
			if header != NoHeader {
				continue
			}
			var q infer
			if err := json.Unmarshal(body, &q); err != nil {
				t.Fatalf("decoded %q, which is not JSON: %v", body, err)
			}
			want := flattened(t, q.Inputs.first[0].Data.text)
			if len(want) != m.In.Len() {
				t.Fatalf("%d numbers of %s decoded as %d", len(want), q.Inputs.first[0].Data.text, m.In.Len())
			}
			for i, v := range want {
				got := float64(into[i*m.In.elementBytes()])
				if m.In.Datatype == Float32 {
					got = float64(nativeFloat(into[4*i:]))
				}
				if math.Abs(got-v) > 6e-8*math.Abs(v)+1e-45 { // rounded to float32; a byte is exact
					t.Errorf("number %d of %s is %g, want %g", i, q.Inputs.first[0].Data.text, got, v)
				}
			}
		}
	})
}

// flattened is the other way to read numbers.
func flattened(t *testing.T, text []byte) []float64 {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var out []float64
	var walk func(any)
	walk = func(v any) {
		switch x := v.(type) {
		case float64:
			out = append(out, x)
		case []any:
			for _, y := range x {
				walk(y)
			}
		default:
			t.Fatalf("%v was taken for a number", x)
		}
	}
	walk(v)
	return out
}
