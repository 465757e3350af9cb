package nvml

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"reflect"
	"testing"
)

// tableFields are the functions of the table.
func tableFields() iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for t, i := reflect.TypeFor[table](), 0; i < t.NumField(); i++ {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func TestReadersComplete(t *testing.T) {
	for q, r := range readers {
		if len(r.ways) == 0 || r.unit == 0 {
			t.Errorf("quantity %d has no way to be read", q)
		}
	}
	for f := range tableFields() {
		if cNames(f)[0] == "" {
			t.Errorf("%s has no C name", f.Name)
		}
	}
}

// A library without any function is no reason to end the program.
func TestEmptyTable(t *testing.T) {
	h := &handle{t: new(table)}
	for q := range quantities {
		if _, err := h.readNumber(q); !errors.Is(err, errUnsupported) {
			t.Errorf("quantity %d: %v", q, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	for ret, want := range map[result]error{
		success: nil, errorNotSupported: errUnsupported, errorFunctionNotFound: errUnsupported, errorNoPermission: errForbidden, errorGPUIsLost: errLost, errorResetRequired: errReset,
	} {
		if got := resultError(ret); !errors.Is(got, want) {
			t.Errorf("%d is %v, want %v", ret, got, want)
		}
	}
	for ret, want := range map[result]string{errorTimeout: "the GPU did not answer in time (NVML error 10)", errorMemory: "NVML error 20"} {
		if got := resultError(ret); got == nil || got.Error() != want {
			t.Errorf("%d is %v, want %q", ret, got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		kind uint32
		bits uint64
		size int
		want float64
	}{
		"double": {typeDouble, math.Float64bits(-2.5), 8, -2.5}, "uint": {typeUint, 4e9, 4, 4e9},
		"ulong": {typeUlong, 1 << 40, 8, 1 << 40}, "ullong": {typeUllong, 1 << 50, 8, 1 << 50},
		"llong": {typeLlong, ^uint64(6), 8, -7}, "int": {typeInt, uint64(^uint32(2)), 4, -3}, "ushort": {typeUshort, 65535, 2, 65535},
	} {
		v := fieldValue{valueType: c.kind, value: [8]byte{255, 255, 255, 255, 255, 255, 255, 255}} // beyond the value it means nothing
		switch c.size {
		case 2:
			binary.NativeEndian.PutUint16(v.value[:], uint16(c.bits))
		case 4:
			binary.NativeEndian.PutUint32(v.value[:], uint32(c.bits))
		default:
			binary.NativeEndian.PutUint64(v.value[:], c.bits)
		}
		got, ok := decodeField(&v)
		value(t, name, got, ok, c.want)
	}
	if _, ok := decodeField(&fieldValue{valueType: 99}); ok {
		t.Error("a value of an unknown type is known")
	}
}
