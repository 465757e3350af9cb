package dynlib

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// Unable says why this build loads no library; empty where it does.
const Unable = ""

// Places is where the driver's library of that name is looked for.
func Places(name string) []string { return []string{name} }

// Open loads a library and returns its handle. It stays loaded until the program ends.
func Open(path string) (uintptr, error) {
	h, err := windows.LoadLibrary(path)
	switch {
	case err == nil:
		return uintptr(h), nil
	case errors.Is(err, windows.ERROR_MOD_NOT_FOUND), errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
		return 0, fmt.Errorf("%s: %w", path, ErrAbsent)
	}
	return 0, fmt.Errorf("%s cannot be loaded: %w", path, err)
}

// OpenGlobal is Open: every library of a process is global here.
func OpenGlobal(path string) (uintptr, error) { return Open(path) }

// LoadedFrom is the name itself.
func LoadedFrom(name string) string { return name }

// Symbol is a function's address in a library, or 0.
func Symbol(library uintptr, name string) uintptr {
	p, err := windows.GetProcAddress(windows.Handle(library), name)
	if err != nil {
		return 0
	}
	return p
}
