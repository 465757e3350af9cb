package kserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// NoHeader is the header length of a body that consists of JSON alone.
const NoHeader = -1

// Asked holds what a request asks for besides its tensor.
type Asked struct {
	ID     string
	Binary bool // the caller wants a binary tensor as the answer
}

// infer is the JSON of a request. Every list in it is bounded, so decoding takes a few kilobytes for any body.
type infer struct {
	ID         short         `json:"id"`
	Parameters parameters    `json:"parameters"`
	Inputs     list[input]   `json:"inputs"`
	Outputs    list[outputs] `json:"outputs"`
}

type input struct {
	Name       short       `json:"name"`
	Datatype   short       `json:"datatype"`
	Shape      list[int64] `json:"shape"`
	Parameters parameters  `json:"parameters"`
	Data       data        `json:"data"`
}

type outputs struct {
	Name       short      `json:"name"`
	Parameters parameters `json:"parameters"`
}

// data is the raw JSON text of an input's numbers.
type data struct{ text []byte }

// UnmarshalJSON stores the text without a copy. The text is part of the request's body, which stays unchanged and alive
// during Decode.
func (d *data) UnmarshalJSON(text []byte) error {
	d.text = text
	return nil
}

// Parameters of the protocol's extension for binary tensors.
const (
	paramSize   = "binary_data_size"   // parameter of an input: bytes after the JSON
	paramBinary = "binary_data"        // parameter of an output
	paramAll    = "binary_data_output" // parameter of the request: the form of every output
)

// HeaderLength parses text, the value of the header Inference-Header-Content-Length for a body of size bytes. It
// returns NoHeader if the text is empty.
func HeaderLength(text string, size int) (int, error) {
	if text == "" {
		return NoHeader, nil
	}
	n, err := strconv.ParseUint(text, 10, 32) // ParseUint accepts digits only
	if err != nil || n > uint64(size) {
		return 0, unreadable("give the length of the JSON before the tensors", "Inference-Header-Content-Length is %.40q, and the body has %d bytes", text, size)
	}
	return int(n), nil
}

// Decode reads a request: either JSON of header bytes followed by a binary tensor, or JSON alone (header is NoHeader).
// It writes the input's numbers to into, of In.Bytes() bytes, in native byte order. The error's text is a sentence for
// the caller.
func (m *Model) Decode(into, body []byte, header int) (Asked, error) {
	text, rest := body, []byte(nil)
	if header != NoHeader {
		text, rest = body[:header], body[header:]
	}
	var q infer
	if err := json.Unmarshal(text, &q); err != nil {
		return Asked{}, unreadable(`send {"inputs": […]}`, "its JSON is broken: %s", jsonFault(err))
	}
	if n := len(q.Inputs.first); n != 1 || q.Inputs.more {
		return Asked{}, unreadable(fmt.Sprintf("send the input %s alone", m.In.Name), "it has %s inputs", q.Inputs.countText())
	}
	in := &q.Inputs.first[0]
	switch {
	case string(in.Name) != m.In.Name:
		return Asked{}, unreadable("send "+m.In.Name, "the model has no input %.40q", in.Name)
	case string(in.Datatype) != m.In.Datatype:
		return Asked{}, unreadable("send "+m.In.Datatype, "the type of %s is %.40q", in.Name, in.Datatype)
	case in.Shape.more || !slices.EqualFunc(in.Shape.first, m.In.Shape, func(a int64, b int) bool { return a == int64(b) }):
		return Asked{}, unreadable(fmt.Sprintf("send %s: a request is one sample, and batches are made by the service", shapeText(m.In.Shape)),
			"the shape of %s is %.80s", in.Name, shapeText(in.Shape.first))
	}
	asked, err := m.requestedOutputs(&q)
	if err != nil {
		return Asked{}, err
	}
	size, binary := in.Parameters[paramSize]
	if err := refuseParameters(in.Parameters, paramSize); err != nil {
		return Asked{}, err
	}
	switch {
	case binary && header == NoHeader:
		return Asked{}, unreadable("send the header Inference-Header-Content-Length with the length of the JSON", "%s is a binary tensor, and the request does not say where the JSON ends", in.Name)
	case binary && in.Data.text != nil:
		return Asked{}, unreadable("send one of them", "%s has data and %s", in.Name, paramSize)
	case binary:
		return asked, m.decodeBinary(into, rest, string(size))
	case len(rest) > 0:
		return Asked{}, unreadable("give the input the parameter "+paramSize, "%d bytes follow the JSON, and no input takes them", len(rest))
	case in.Data.text == nil:
		return Asked{}, unreadable("send data or a binary tensor", "%s has no data", in.Name)
	}
	return asked, m.readNumbers(into, in.Data.text)
}

// requestedOutputs returns the form in which the caller wants the answer.
func (m *Model) requestedOutputs(q *infer) (Asked, error) {
	asked := Asked{ID: string(q.ID)}
	if text, is := q.Parameters[paramAll]; is {
		if err := json.Unmarshal(text, &asked.Binary); err != nil {
			return asked, unreadable("send true or false", "the parameter %s is %.40s", paramAll, text)
		}
	}
	if len(q.Outputs.first) > 1 || q.Outputs.more {
		return asked, unreadable("ask for "+m.Out.Name+" once, or for none", "it asks for %s outputs", q.Outputs.countText())
	}
	for _, out := range q.Outputs.first {
		if string(out.Name) != m.Out.Name {
			return asked, unreadable("ask for "+m.Out.Name, "the model has no output %.40q", out.Name)
		}
		if err := refuseParameters(out.Parameters, paramBinary); err != nil {
			return asked, err
		}
		if text, is := out.Parameters[paramBinary]; is {
			if err := json.Unmarshal(text, &asked.Binary); err != nil {
				return asked, unreadable("send true or false", "the parameter %s is %.40s", paramBinary, text)
			}
		}
	}
	return asked, nil
}

// refuseParameters refuses parameters of a tensor, other than the known one, that would change the request, such as
// shared memory. Parameters of the whole request do not affect the numbers.
func refuseParameters(params parameters, known string) error {
	for name := range params {
		if name != known {
			return unreadable("leave it out", "the parameter %.40q of a tensor is not supported", name)
		}
	}
	return nil
}

// decodeBinary reads a tensor of raw little-endian numbers.
func (m *Model) decodeBinary(into, rest []byte, size string) error {
	if n, err := strconv.Atoi(size); err != nil || n != m.In.Bytes() || n != len(rest) {
		return unreadable(fmt.Sprintf("send %d bytes", m.In.Bytes()), "the tensor %s takes %d bytes; %s is %.40s, and %d bytes follow the JSON", m.In.Name, m.In.Bytes(), paramSize, size, len(rest))
	}
	if m.In.Datatype == Uint8 {
		copy(into, rest)
		return nil
	}
	for i := range m.In.Len() {
		v := littleFloat(rest[4*i:])
		if !(math.Abs(float64(v)) <= mostMagnitude) {
			return m.outOfRange(i, v)
		}
		putNative(into[4*i:], v)
	}
	return nil
}

func (m *Model) outOfRange(i int, v float32) error {
	return unreadable(fmt.Sprintf("send numbers from -%g to %g", float64(mostMagnitude), float64(mostMagnitude)), "number %d of %s is %g", i, m.In.Name, v)
}

// jsonFault returns the message of an encoding/json error, without the package's name and Go types.
func jsonFault(err error) string {
	if long, is := errors.AsType[*tooLong](err); is {
		return long.Error()
	}
	switch e := err.(type) { //nolint:errorlint // Unmarshal returns these unwrapped
	case *json.SyntaxError:
		return fmt.Sprintf("at byte %d, %s", e.Offset, e.Error())
	case *json.UnmarshalTypeError:
		what, kind := fmt.Sprintf("%.80q", e.Field), "a "+e.Value
		if e.Field == "" {
			what = "the request"
		}
		switch _, number, is := strings.Cut(e.Value, " "); {
		case is: // a number that the field cannot hold
			kind = fmt.Sprintf("%.40s", number)
		case e.Value == "array" || e.Value == "object":
			kind = "an " + e.Value
		}
		return fmt.Sprintf("%s cannot be %s", what, kind)
	}
	return err.Error()
}
