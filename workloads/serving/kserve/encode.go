package kserve

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

type answered struct {
	ModelName    string      `json:"model_name"`
	ModelVersion string      `json:"model_version"`
	ID           string      `json:"id,omitempty"`
	Outputs      [1]answerIn `json:"outputs"`
}

type answerIn struct {
	Tensor
	Parameters map[string]int `json:"parameters,omitempty"`
	Data       []float32      `json:"data,omitempty"`
}

// Encode makes the body of an answer from an output in native byte order. header is the length of the JSON if a binary
// tensor follows it, else NoHeader. ok is false if the output contains NaN or an infinity, which JSON cannot represent;
// the network has then failed.
func (m *Model) Encode(asked Asked, out []byte) (body []byte, header int, ok bool) {
	a := answered{ModelName: m.Name, ModelVersion: version, ID: asked.ID, Outputs: [1]answerIn{{Tensor: m.Out}}}
	values := make([]float32, m.Out.Len())
	for i := range values {
		if values[i] = nativeFloat(out[4*i:]); math.IsNaN(float64(values[i])) || math.IsInf(float64(values[i]), 0) {
			return nil, 0, false
		}
	}
	if !asked.Binary {
		a.Outputs[0].Data = values
		body, err := json.Marshal(a)
		return body, NoHeader, err == nil
	}
	a.Outputs[0].Parameters = map[string]int{paramSize: len(out)}
	body, err := json.Marshal(a)
	header = len(body)
	for _, v := range values {
		body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
	}
	return body, header, err == nil
}
