package model

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/gpuprof/gpuprof"
)

// Column is a list of integers, stored as differences of neighbours: variable-length zigzag numbers in base64. That
// takes about a fifth of the size of text, and is about ten times as fast to read.
type Column []int64

// mostNumbers exceeds the length of every valid column, which limits the memory for a damaged one.
const mostNumbers = 1 << 20

// MarshalJSON implements json.Marshaler.
func (c Column) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 3*len(c))
	last := int64(0)
	for _, v := range c {
		raw = binary.AppendVarint(raw, v-last)
		last = v
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Column) UnmarshalJSON(text []byte) error {
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading a column of numbers: %w", err).WithFix("have this rank measure again")
	}
	raw = raw[:n]
	count := 0
	for _, b := range raw {
		if b < 0x80 { // last byte of a number
			count++
		}
	}
	if count > mostNumbers {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading a column of numbers: it holds %d of them", count).WithFix("have this rank measure again")
	}
	out := make(Column, 0, count)
	for last := int64(0); len(raw) > 0; {
		v, n := binary.Varint(raw)
		if n <= 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading a column of numbers: it ends inside a number").WithFix("have this rank measure again")
		}
		last += v
		out, raw = append(out, last), raw[n:]
	}
	*c = out
	return nil
}
