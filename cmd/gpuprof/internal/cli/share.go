package cli

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
)

// Types of flags whose values are times, sizes or fractions. Functions of package gpuprof parse the values.

// Share is a fraction, given as "5%" or 0.05.
type Share float64

// UnmarshalText implements encoding.TextUnmarshaler for kong.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := gpuprof.ParseShare(string(text))
	*s = Share(v)
	return err
}

// Size is a number of bytes as the user typed it; "" if not given.
type Size string

// UnmarshalText implements encoding.TextUnmarshaler for kong.
func (s *Size) UnmarshalText(text []byte) error {
	_, err := gpuprof.ParseBytes(string(text))
	*s = Size(text)
	return err
}

// Bytes returns the size in bytes; 0 if none was given. UnmarshalText has checked the text.
func (s Size) Bytes() int64 {
	n, err := gpuprof.ParseBytes(string(s))
	if err != nil {
		return 0
	}
	return n
}

// TimeMapper makes kong parse times with gpuprof.ParseTime.
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
