package device

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

// MaxArgs is the maximum number of a kernel's parameters. A fixed-size array lets a launch allocate nothing.
const MaxArgs = 20

// Args are a kernel's arguments. Launch copies them, so the caller may reuse the same Args for the next launch.
type Args [MaxArgs]Arg

// Arg is one argument: its bits as a GPU kernel receives them, and for memory also the buffer that they point into.
type Arg struct {
	Bits uint64
	Buf  Buffer
}

// SetBuf makes argument i the buffer b.
func (a *Args) SetBuf(i int, b Buffer) { a[i] = Arg{b.Addr(), b} }

// SetBufAt makes argument i the memory of b from byte at on.
func (a *Args) SetBufAt(i int, b Buffer, at int64) { a[i] = Arg{b.Addr() + uint64(at), b} }

// SetInt makes argument i the 32-bit integer v.
func (a *Args) SetInt(i int, v int) { a[i].Bits = intBits(v) }

// SetF32 makes argument i a float32.
func (a *Args) SetF32(i int, v float32) { a[i].Bits = floatBits(v) }

func intBits(v int) uint64       { return uint64(uint32(int32(v))) }
func floatBits(v float32) uint64 { return uint64(math.Float32bits(v)) }

type (
	// Mem is a buffer argument, with a view for host code.
	Mem struct{ Arg }
	// Int32 is an integer argument, decoded for host code.
	Int32 struct{ Arg }
	// Float32 is a float argument, decoded for host code.
	Float32 struct{ Arg }
)

// Set makes the argument the memory of b from byte at on.
func (a *Mem) Set(b Buffer, at int64) { a.Arg = Arg{b.Addr() + uint64(at), b} }

// Set makes the argument v.
func (a *Int32) Set(v int) { a.Bits = intBits(v) }

// Set makes the argument v.
func (a *Float32) Set(v float32) { a.Bits = floatBits(v) }

// Int returns the value.
func (a Int32) Int() int { return int(int32(uint32(a.Bits))) }

// Bool reports whether the value is not 0.
func (a Int32) Bool() bool { return a.Int() != 0 }

// F32 returns the value.
func (a Float32) F32() float32 { return math.Float32frombits(uint32(a.Bits)) }

// Floats views the memory as float32 values.
func (a Mem) Floats() []float32 { return viewAs[float32](a.Bytes()) }

// Ints views the memory as int32 values.
func (a Mem) Ints() []int32 { return viewAs[int32](a.Bytes()) }

// Halves views the memory as 16-bit values.
func (a Mem) Halves() []uint16 {
	v := a.Bytes()
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

// Bytes returns the buffer's bytes from the argument's address to the end.
func (a Mem) Bytes() []byte { return a.Buf.Bytes()[a.Bits-a.Buf.Addr():] }

// View reinterprets arguments as T, a struct of Mem, Int32 and Float32 fields in the order of the kernel's parameters.
// scripts/build/kernelargs generates T for each kernel.
func View[T any](a *Args) *T { return (*T)(unsafe.Pointer(a)) }

// Floats views a host-visible buffer as float32 values; the result is empty for other buffers.
func Floats(b Buffer) []float32 { return viewAs[float32](b.Bytes()) }

// Ints views a host-visible buffer as int32 values; the result is empty for other buffers.
func Ints(b Buffer) []int32 { return viewAs[int32](b.Bytes()) }

func viewAs[T float32 | int32](v []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/4)
}

type (
	// Ref is a launch's buffer argument: a Buffer, or an op.Ref that op.Binder resolves at each launch. Ref, Num and Real
	// must have the layout of any; see Kernel.List.
	Ref any
	// Num is a launch's integer argument: an int, or an op.Num that op.Binder resolves at each launch.
	Num any
	// Real is a launch's float32 argument.
	Real any
)

//go:generate go run ../../scripts/build/kernelargs ../op ../optim ../gruflow ../gridsim ../collate ../serving ../serving/resnet

// Typed completes a kernel with its signature, from the argument struct T: fields of Ref, Num and Real in the order of
// the kernel's parameters. scripts/build/kernelargs generates T for each kernel.
func Typed[T any](k Kernel) Kernel {
	k.args = reflect.TypeFor[T]()
	k.Sig = ""
	for i := range k.args.NumField() {
		switch k.args.Field(i).Type {
		case reflect.TypeFor[Ref]():
			k.Sig += "b"
		case reflect.TypeFor[Num]():
			k.Sig += "i"
		default:
			k.Sig += "f"
		}
	}
	return k
}

// List returns a launch's arguments in the order of the kernel's parameters. The parameter args must be the struct that
// Typed was given, with every field set; otherwise List returns an error.
func (k *Kernel) List(args any) ([]any, error) {
	v := reflect.ValueOf(args)
	if k.args == nil || v.Type() != k.args {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "launching kernel %s: its arguments are a %T, not a %v", k.Name, args, k.args).WithFix("report it as a defect of the operation")
	}
	own := reflect.New(k.args)
	own.Elem().Set(v)
	list := unsafe.Slice((*any)(own.UnsafePointer()), k.args.NumField())
	for i, arg := range list {
		if arg == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrDevice, "launching kernel %s: its argument %s is not set", k.Name, k.args.Field(i).Name).WithFix("report it as a defect of the operation")
		}
	}
	return list, nil
}

// ParamName returns the name of parameter i, or i as text if the kernel has no argument struct.
func (k *Kernel) ParamName(i int) string {
	if k.args == nil {
		return fmt.Sprint(i)
	}
	return k.args.Field(i).Name
}

// Int reads argument i as a 32-bit integer.
func (a *Args) Int(i int) int { return Int32{a[i]}.Int() }

// F32 reads argument i as a float32.
func (a *Args) F32(i int) float32 { return Float32{a[i]}.F32() }

// Floats views argument i's memory as float32 values (host device only).
func (a *Args) Floats(i int) []float32 { return Mem{a[i]}.Floats() }

// Ints views argument i's memory as int32 values (host device only).
func (a *Args) Ints(i int) []int32 { return Mem{a[i]}.Ints() }

// Bytes returns argument i's memory (host device only).
func (a *Args) Bytes(i int) []byte { return Mem{a[i]}.Bytes() }
