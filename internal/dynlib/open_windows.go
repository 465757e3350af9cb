package dynlib

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// Unable is the reason why this build loads no library, "" if it does.
const Unable = ""

// Places returns the name of the library: Windows searches its own folders.
func Places(name string) []string { return []string{name} }

// Open loads a library and returns its handle. The library stays loaded until the program ends.
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

// OpenGlobal is Open: on Windows all libraries of a process are global.
func OpenGlobal(path string) (uintptr, error) { return Open(path) }

// LoadedFrom returns the name: the path is not determined on Windows.
func LoadedFrom(name string) string { return name }

// Symbol returns the address of a function in a library, or 0.
func Symbol(library uintptr, name string) uintptr {
	p, err := windows.GetProcAddress(windows.Handle(library), name)
	if err != nil {
		return 0
	}
	return p
}
