//go:build windows || (linux && !nodlopen)

package dynlib

import "github.com/ebitengine/purego"

// Bind sets fn, a pointer to a variable of a function type, to the C function at addr. A call of the bound function
// keeps Go memory behind pointer arguments alive, but allocates; use Call in timed regions.
func Bind(fn any, addr uintptr) { purego.RegisterFunc(fn, addr) }

// Call calls the C function at addr with the arguments and returns its result, without allocating. Go memory behind the
// arguments must be on the heap, and the caller must keep it alive.
func Call(addr uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(addr, args...)
	return r
}
