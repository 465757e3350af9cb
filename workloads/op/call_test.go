package op

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

type callArgs struct {
	x, y device.Ref
	n, m device.Num
	f    device.Real
}

type callView struct {
	x, y device.Mem
	n, m device.Int32
	f    device.Float32
}

// callKernel writes its numbers to the memory of both arguments.
var callKernel = device.Typed[callArgs](device.Kernel{Name: "call", Host: func(a *device.Args, _, _ int) {
	v := device.View[callView](a)
	v.x.Floats()[0], v.y.Floats()[0] = float32(v.n.Int()), float32(v.m.Int())+v.f.F32()
}})

// Arguments follow the block, the ring's turn, the repetition, the items and the batch of each launch.
func TestLateArguments(t *testing.T) {
	r := newRig(t, 1)
	blocks := []device.Buffer{r.alloc(64), r.alloc(64)}
	plain, first, second := r.alloc(64), r.alloc(64), r.alloc(64)
	b := Binder{Dev: r.dev, Rings: map[device.Buffer][]device.Buffer{first: {first, second}}}
	b.Place = func(block int) (device.Buffer, int64) { return blocks[block], 16 * int64(block) }
	for _, tt := range []struct {
		name        string
		x           any
		n           any
		turn, t     int
		buf         device.Buffer
		at          uint64
		want, batch int
	}{
		{"a buffer and an int", plain, -7, 0, 3, plain, 0, -7, 1},
		{"a place in a buffer", From(plain, 5), true, 1, 3, plain, 20, 1, 1},
		{"false", plain, false, 0, 0, plain, 0, 0, 1},
		{"a block", Ref{Block: 1, At: 4}, Num{Value: 2}, 0, 0, blocks[1], 20, 2, 1},
		{"a step of a repetition", Ref{Buf: plain, At: 8, By: -4}, Num{Value: 5, By: -2}, 0, 2, plain, 0, 1, 1},
		{"a step through a block", Ref{Block: 1, By: 12}, Num{By: 3}, 0, 2, blocks[1], 16 + 24, 6, 1},
		{"a ring", first, itemCount, 1, 0, second, 0, 9, 1},
		{"a ring at its start", first, edgeCount, 0, 0, first, 0, 41, 41},
		{"a place in a ring", Ref{Buf: first, At: 8, By: 4}, 1, 1, 3, second, 20, 1, 1},
	} {
		call := b.Bind(&callKernel, 9, gpuprof.Cost{Flops: 3}, callArgs{x: tt.x, y: plain, n: tt.n, m: 1, f: float32(0.5)})
		b.Turn = tt.turn
		if n := testing.AllocsPerRun(10, func() { b.Set(&call, tt.t, tt.batch) }); n != 0 {
			t.Errorf("%s: setting the arguments allocates %g times", tt.name, n)
		}
		if got := call.Args[0]; b.Err != nil || got.Buf != tt.buf || got.Bits != tt.buf.Addr()+tt.at || call.Args.Int(2) != tt.want {
			t.Errorf("%s: byte %d of %v and %d, want byte %d of %v and %d, error %v", tt.name, got.Bits-got.Buf.Addr(), got.Buf, call.Args.Int(2), tt.at, tt.buf, tt.want, b.Err)
		}
		if want := (gpuprof.Cost{Flops: 3, Launches: 1}); call.N != 9 || call.Cost != want || call.Kernel != "call" {
			t.Errorf("%s: %d items of %s cost %+v", tt.name, call.N, call.Kernel, call.Cost)
		}
	}
}

// A launch enqueues with the arguments of its repetition.
func TestEnqueueSetsArguments(t *testing.T) {
	r := newRig(t, 1)
	x, y := r.alloc(4), r.alloc(4)
	b := Binder{Dev: r.dev}
	call := b.Bind(&callKernel, 1, gpuprof.Cost{}, callArgs{x: Ref{Buf: x, By: 4}, y: y, n: Num{Value: 10, By: 1}, m: 2, f: float32(0.25)})
	for i := range 3 {
		if err := errors.Join(b.Err, b.Enqueue(r.s, &call, i), r.s.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	if v := device.Floats(x); v[0] != 10 || v[1] != 11 || v[2] != 12 || device.Floats(y)[0] != 2.25 {
		t.Errorf("three repetitions wrote %v and %v", v, device.Floats(y))
	}
}

// The first error of a binder stays, and names the kernel.
func TestBindErrors(t *testing.T) {
	r := newRig(t, 1)
	x := r.alloc(4)
	for _, tt := range []struct {
		args any
		kind error
		want string
	}{
		{callArgs{x: x, y: x, n: 1, m: 2}, gpuprof.ErrDevice, "argument f is not set"},
		{callArgs{x: x, y: 1, n: 1, m: 2, f: float32(1)}, gpuprof.ErrDevice, `its signature is "bbiif" but the arguments are "biiif"`},
		{callArgs{x: x, y: x, n: 1, m: int32(2), f: float32(1)}, gpuprof.ErrDevice, `the arguments are "bbi?f"`},
		{callArgs{x: x, y: x, n: math.MaxInt32 + 1, m: 2, f: float32(1)}, gpuprof.ErrUsage, "argument n of kernel call, 2147483648, does not fit 32 bits"},
		{fillArgs{}, gpuprof.ErrDevice, "launching kernel call"},
	} {
		b := Binder{Dev: r.dev}
		b.Bind(&callKernel, 1, gpuprof.Cost{}, tt.args)
		b.Bind(&callKernel, 1, gpuprof.Cost{}, callArgs{})
		if !errors.Is(b.Err, tt.kind) || !strings.Contains(b.Err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.args, b.Err, tt.want)
		}
	}
}
