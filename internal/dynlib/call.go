//go:build windows || (linux && !nodlopen)

package dynlib

import "github.com/ebitengine/purego"

// Bind sets fn, a pointer to a variable of a function type, to the C function at addr.
// Pointers among its arguments are kept alive for the length of the call. It allocates
// at every call; what timed regions call goes through Call.
func Bind(fn any, addr uintptr) { purego.RegisterFunc(fn, addr) }

// Call calls the C function at addr with words and returns its result. It allocates
// nothing. Go memory behind a word is on the heap and kept alive by the caller.
func Call(addr uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(addr, args...)
	return r
}
