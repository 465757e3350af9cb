package cuda

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

func driverPaths() []string { return []string{"nvcuda.dll"} }

func openLibrary(path string) (uintptr, error) {
	h, err := windows.LoadLibrary(path)
	switch {
	case err == nil:
		return uintptr(h), nil
	case errors.Is(err, windows.ERROR_MOD_NOT_FOUND), errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
		return 0, fmt.Errorf("%s: %w", path, errAbsent)
	}
	return 0, fmt.Errorf("%s cannot be loaded: %w", path, err)
}

func openVendor(path string) (uintptr, error) { return openLibrary(path) }

func loadedFrom(name string) string { return name }

func symbol(library uintptr, name string) uintptr {
	p, err := windows.GetProcAddress(windows.Handle(library), name)
	if err != nil {
		return 0
	}
	return p
}

const noDriver = "install the NVIDIA driver"
