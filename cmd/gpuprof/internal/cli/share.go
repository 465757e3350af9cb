package cli

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
)

// The values of flags that are a time, a size or a share. Every such flag is read here,
// by the readers of package gpuprof.

// Share is a part of a whole as flags take it: "5%" or 0.05.
type Share float64

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := gpuprof.ParseShare(string(text))
	*s = Share(v)
	return err
}

// Size is a number of bytes, "" for none.
type Size string

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (s *Size) UnmarshalText(text []byte) error {
	_, err := gpuprof.ParseBytes(string(text))
	*s = Size(text)
	return err
}

// Bytes is the size, 0 for none. It was read before.
func (s Size) Bytes() int64 {
	n, err := gpuprof.ParseBytes(string(s))
	if err != nil {
		return 0
	}
	return n
}

// TimeMapper has kong read every time by gpuprof.ParseTime.
func TimeMapper() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("time", &text); err != nil {
			return err
		}
		d, err := gpuprof.ParseTime(text)
		target.SetInt(int64(d))
		return err
	}))
}
