//go:build windows || (linux && !nodlopen)

package dynlib

import "github.com/ebitengine/purego"

// Bind sets fn, a pointer to a variable of a function type, to the C function at addr. It keeps Go memory behind
// pointer arguments alive during the call. The bound function allocates at every call; timed regions use Call
// instead.
func Bind(fn any, addr uintptr) { purego.RegisterFunc(fn, addr) }

// Call calls the C function at addr with words and returns its result. It allocates nothing. The caller keeps Go
// memory behind the words on the heap and alive.
func Call(addr uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(addr, args...)
	return r
}
