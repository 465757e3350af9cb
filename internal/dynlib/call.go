//go:build windows || (linux && !nodlopen)

package dynlib

import "github.com/ebitengine/purego"

// Bind sets fn, a pointer to a variable of a function type, to the C function at addr. It keeps Go memory behind
// pointer arguments alive during the call. The bound function allocates at every call; use Call in timed regions.
func Bind(fn any, addr uintptr) { purego.RegisterFunc(fn, addr) }

// Call calls the C function at addr with the arguments and returns its result, without allocating. The caller must
// keep Go memory behind the arguments on the heap and alive.
func Call(addr uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(addr, args...)
	return r
}
