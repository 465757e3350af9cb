//go:build !windows && !(linux && !nodlopen)

package dynlib

import "fmt"

// Places is where the driver's library of that name is looked for.
func Places(name string) []string { return []string{name} }

// Open loads nothing here, see Unable.
func Open(path string) (uintptr, error) { return 0, fmt.Errorf("%s: %w", path, ErrAbsent) }

// OpenGlobal loads nothing here, see Unable.
func OpenGlobal(path string) (uintptr, error) { return Open(path) }

// LoadedFrom is the name itself.
func LoadedFrom(name string) string { return name }

// Symbol is 0: there is no library to have it.
func Symbol(uintptr, string) uintptr { return 0 }

// Bind does nothing: no function has an address here.
func Bind(any, uintptr) {}

// Call is not reached: no function has an address here.
func Call(uintptr, []uintptr) uintptr { return 0 }
