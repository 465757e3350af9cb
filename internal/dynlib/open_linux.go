//go:build !nodlopen

package dynlib

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// Unable is the reason why this build loads no library, "" if it does.
const Unable = ""

// Places lists the paths of a library of the driver: first its name, for which the loader searches LD_LIBRARY_PATH and
// ld.so.cache, then paths in folders of distributions, WSL, containers and NixOS that the loader may not search.
func Places(name string) []string {
	paths := []string{name}
	for _, dir := range []string{
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
		"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib",
	} {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// Open loads a library for this program's calls and returns its handle. It stays loaded until the program ends.
func Open(path string) (uintptr, error) { return openMode(path, purego.RTLD_NOW|purego.RTLD_LOCAL) }

// OpenGlobal is Open for libraries that need each other's symbols.
func OpenGlobal(path string) (uintptr, error) {
	return openMode(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func openMode(path string, mode int) (uintptr, error) {
	// The loader keeps its error message per thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, mode)
	if err == nil {
		return h, nil
	}
	if isAbsent(path, err.Error(), os.Stat) {
		return 0, fmt.Errorf("%s: %w", path, ErrAbsent)
	}
	return 0, fmt.Errorf("%s cannot be loaded: %w", path, err)
}

// LoadedFrom returns the file that a library was mapped from.
func LoadedFrom(name string) string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil || strings.Contains(name, "/") {
		return name
	}
	base, _, _ := strings.Cut(filepath.Base(name), ".so") // the name may be a link to a file with the driver's version
	for line := range strings.Lines(string(text)) {       // fields: address perms offset dev inode path
		if i := strings.IndexByte(line, '/'); i >= 0 {
			if file := strings.TrimSpace(line[i:]); strings.HasPrefix(filepath.Base(file), base+".so") {
				return file
			}
		}
	}
	return name
}

// Symbol returns the address of a function in a library, or 0.
func Symbol(library uintptr, name string) uintptr {
	p, err := purego.Dlsym(library, name)
	if err != nil {
		return 0
	}
	return p
}
