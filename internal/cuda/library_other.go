//go:build !linux && !windows

package cuda

import (
	"fmt"
)

func driverPaths() []string { return []string{"libcuda"} }

func openLibrary(path string) (uintptr, error) {
	return 0, fmt.Errorf("%s: %w", path, errAbsent)
}

func openVendor(path string) (uintptr, error) { return openLibrary(path) }

func loadedFrom(name string) string { return name }

func symbol(uintptr, string) uintptr { return 0 }

const noDriver = "NVIDIA has no CUDA for this system; use --device host"
