package device

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

type mixParams[B, I, F any] struct {
	x, y  B
	n, at I
	by    F
}

type (
	mixArgs = mixParams[Ref, Num, Real]
	mixView = mixParams[Mem, Int32, Float32]
)

func TestTypedSignature(t *testing.T) {
	if k := Typed[mixArgs](Kernel{Name: "mix"}); k.Sig != "bbiif" {
		t.Errorf("signature %q, want bbiif", k.Sig)
	}
}

// A launch names every argument: a field that is not set, and the arguments of another kernel, are refused.
func TestListRefuses(t *testing.T) {
	k, other := Typed[mixArgs](Kernel{Name: "mix"}), Typed[ProductArgs](Kernel{Name: "product"})
	plain := Kernel{Name: "plain", Sig: "b"}
	for _, tt := range []struct {
		kernel *Kernel
		args   any
		want   string
	}{
		{&k, mixArgs{x: 1, n: 0, at: 0, by: float32(0)}, "argument y is not set"},
		{&k, mixArgs{x: 1, y: 2, n: 0, by: float32(0)}, "argument at is not set"},
		{&k, mixArgs{x: 1, y: 2, n: 0, at: 0}, "argument by is not set"},
		{&other, mixArgs{x: 1, y: 2, n: 0, at: 0, by: float32(0)}, "not a device.ProductArgs"},
		{&plain, mixArgs{}, "launching kernel plain"},
	} {
		_, err := tt.kernel.List(tt.args)
		if !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestListOrder(t *testing.T) {
	k := Typed[mixArgs](Kernel{Name: "mix"})
	list, err := k.List(mixArgs{by: float32(3), at: 2, n: 1, y: "y", x: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []any{"x", "y", 1, 2, float32(3)} {
		if list[i] != want {
			t.Errorf("argument %d is %v, want %v", i, list[i], want)
		}
	}
	if k.ParamName(3) != "at" {
		t.Errorf("parameter 3 is called %s", k.ParamName(3))
	}
}

// A view reads the arguments that were set by position, and sets those that are read by position.
func TestView(t *testing.T) {
	var a Args
	a.SetInt(2, -7)
	v := View[mixView](&a)
	v.at.Set(1 << 30)
	v.by.Set(0.5)
	if v.n.Int() != -7 || a.Int(3) != 1<<30 || a.F32(4) != 0.5 || v.by.F32() != 0.5 {
		t.Errorf("read %d, %d and %g", v.n.Int(), a.Int(3), a.F32(4))
	}
	if n := testing.AllocsPerRun(10, func() { View[mixView](&a).n.Set(1) }); n != 0 {
		t.Errorf("a view allocates %g times", n)
	}
}
