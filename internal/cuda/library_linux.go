package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// driverPaths is where the driver's library is looked for: by name first, which
// follows LD_LIBRARY_PATH and ld.so.cache, then where distributions, WSL and
// containers put it without telling the loader.
func driverPaths() []string {
	return []string{
		"libcuda.so.1",
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
		"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
		"/usr/lib64/libcuda.so.1",
		"/usr/lib/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1",
		"/run/opengl-driver/lib/libcuda.so.1",
	}
}

func openLibrary(path string) (uintptr, error) { return open(path, purego.RTLD_NOW|purego.RTLD_LOCAL) }

// openVendor opens a vendor's library for others to find, because they load
// one another by name.
func openVendor(path string) (uintptr, error) { return open(path, purego.RTLD_NOW|purego.RTLD_GLOBAL) }

func open(path string, mode int) (uintptr, error) {
	// The loader keeps its complaint for the thread that asked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, mode)
	if err == nil {
		return h, nil
	}
	if absent(path, err.Error(), os.Stat) {
		return 0, fmt.Errorf("%s: %w", path, errAbsent)
	}
	return 0, fmt.Errorf("%s cannot be loaded: %w", path, err)
}

// loadedFrom is the file behind a library's name, as the process has it mapped.
func loadedFrom(name string) string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil || strings.Contains(name, "/") {
		return name
	}
	base, _, _ := strings.Cut(filepath.Base(name), ".so") // the name is a link: the file has the driver's version
	for line := range strings.Lines(string(text)) {       // address perms offset dev inode path
		if i := strings.IndexByte(line, '/'); i >= 0 {
			if file := strings.TrimSpace(line[i:]); strings.HasPrefix(filepath.Base(file), base+".so") {
				return file
			}
		}
	}
	return name
}

// symbol is a function's address, or 0.
func symbol(library uintptr, name string) uintptr {
	p, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return p
}

const noDriver = "install the NVIDIA driver, or start the container with --gpus all"
