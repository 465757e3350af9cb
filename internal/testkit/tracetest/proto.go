package tracetest

import (
	"encoding/binary"
	"math"
	"slices"
)

// ProtoNumber encodes a varint field of a protocol buffer message, for synthetic xplane files.
func ProtoNumber(field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3), v)
}

// ProtoText encodes a length-delimited field of a protocol buffer: bytes, or a message from its encoded fields.
func ProtoText(field int, parts ...[]byte) []byte {
	all := slices.Concat(parts...)
	b := binary.AppendUvarint(nil, uint64(field)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(all))), all...)
}

// ProtoDouble encodes a 64-bit floating-point field of a protocol buffer.
func ProtoDouble(field int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, uint64(field)<<3|1), math.Float64bits(v))
}
