//go:build !windows && !(linux && !nodlopen)

package dynlib

import "fmt"

// Places returns the name alone.
func Places(name string) []string { return []string{name} }

// Open loads nothing in this build, see Unable.
func Open(path string) (uintptr, error) { return 0, fmt.Errorf("%s: %w", path, ErrAbsent) }

// OpenGlobal loads nothing in this build, see Unable.
func OpenGlobal(path string) (uintptr, error) { return Open(path) }

// LoadedFrom returns the name.
func LoadedFrom(name string) string { return name }

// Symbol returns 0: no library is loaded.
func Symbol(uintptr, string) uintptr { return 0 }

// Bind does nothing: no function has an address in this build.
func Bind(any, uintptr) {}

// Call is unreachable: no function has an address in this build.
func Call(uintptr, []uintptr) uintptr { return 0 }
