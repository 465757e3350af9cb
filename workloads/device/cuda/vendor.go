package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// libraryPathVariable is the environment variable with the folders to search first for vendor libraries.
const libraryPathVariable = "GPUPROF_CUDA_LIBRARY_PATH"

// useVendor opens the first library with one of these names that the function try accepts. It searches the folders in
// libraryPathVariable, then the names alone (LD_LIBRARY_PATH, ld.so.cache), then folders of toolkits and Python
// packages.
func useVendor(what string, names []string, try func(lib uintptr, path string) error) error {
	told := filepath.SplitList(os.Getenv(libraryPathVariable))
	var paths []string
	for _, dir := range told {
		paths = append(paths, existingFiles(dir, names)...)
	}
	paths = append(paths, names...)
	folders := vendorFolders()
	for _, dir := range folders {
		paths = append(paths, existingFiles(dir, names)...)
	}
	var refusals []string
	refused := map[uintptr]bool{}
	for _, p := range paths {
		lib, err := dynlib.OpenGlobal(p)
		if err == nil {
			if refused[lib] { // the loader returns an already loaded library for its name
				continue
			}
			err = try(lib, p)
			refused[lib] = true
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, dynlib.ErrAbsent):
			refusals = append(refusals, err.Error())
		}
	}
	if len(refusals) > 0 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %s", what, strings.Join(refusals, "; ")).WithFix("install a version for this driver, or name its folder in %s", libraryPathVariable)
	}
	return gpuprof.Errorf(gpuprof.ErrDevice, "%s was not found as %s, neither by the loader nor in %s", what, strings.Join(names, ", "), listFolders(slices.Concat(told, folders))).WithFix("install it (it comes with PyTorch: pip install torch), or name its folder in %s", libraryPathVariable)
}

// symbol names a function of a library and points to the variable to bind: a func, or a uintptr for the address. The
// variable stays nil or 0 if the library lacks an optional function.
type symbol struct {
	name     string
	to       any
	optional bool
}

func bindSymbols(lib uintptr, path string, list []symbol) error {
	for _, f := range list {
		addr := dynlib.Symbol(lib, f.name)
		if addr == 0 {
			if !f.optional {
				return fmt.Errorf("%s has no function %s", path, f.name)
			}
			continue
		}
		if to, ok := f.to.(*uintptr); ok {
			*to = addr
		} else {
			dynlib.Bind(f.to, addr)
		}
	}
	return nil
}

// callVendor runs a call of a vendor library in the device's context. It keeps the call's error as libFault.
func (d *Device) callVendor(call func() error) Result {
	runtime.LockOSThread() // see enter
	defer runtime.UnlockOSThread()
	if r := d.drv.CtxSet(d.ctx); r != success { // the library works in the thread's context
		return r
	}
	if err := call(); err != nil {
		d.libFault = err
		return errLibrary
	}
	return success
}

func listFolders(dirs []string) string {
	if len(dirs) == 0 {
		return "any known folder"
	}
	const most = 12
	if len(dirs) > most {
		return strings.Join(dirs[:most], ", ") + fmt.Sprintf(" and %d more", len(dirs)-most)
	}
	return strings.Join(dirs, ", ")
}

func existingFiles(dir string, names []string) []string {
	var found []string
	for _, name := range names {
		p := filepath.Join(dir, name)
		if _, err := os.Stat(p); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// vendorFolders returns the existing folders that may hold CUDA libraries. It need not run Python, because Python's
// packages are in known folders below its prefix.
func vendorFolders() []string {
	patterns := []string{
		"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64",
		"/usr/local/cuda*/targets/*/lib", "/opt/cuda/lib64", "/usr/lib/*-linux-gnu",
	}
	if p := os.Getenv("CUDA_PATH"); p != "" {
		patterns = append(patterns, filepath.Join(p, "lib64"), filepath.Join(p, "bin"), filepath.Join(p, "bin", "x64"))
	}
	for _, prefix := range pythonPrefixes() {
		patterns = append(patterns, filepath.Join(prefix, "lib"))
		for _, site := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages", "Lib/site-packages"} {
			patterns = append(patterns,
				filepath.Join(prefix, site, "nvidia", "*", "lib"),
				filepath.Join(prefix, site, "nvidia", "*", "bin"),
				filepath.Join(prefix, site, "torch", "lib"))
		}
	}
	var dirs []string
	for _, p := range patterns {
		matches, err := filepath.Glob(p)
		if err != nil {
			continue // a prefix with glob characters in its name
		}
		slices.Sort(matches)
		slices.Reverse(matches) // newest versions first
		for _, m := range matches {
			if info, err := os.Stat(m); err == nil && info.IsDir() && !slices.Contains(dirs, m) {
				dirs = append(dirs, m)
			}
		}
	}
	return dirs
}

func pythonPrefixes() []string {
	var list []string
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if p := os.Getenv(v); p != "" {
			list = append(list, p)
		}
	}
	if p, err := exec.LookPath("python3"); err == nil {
		list = append(list, filepath.Dir(filepath.Dir(p)))
		if p, err := filepath.EvalSymlinks(p); err == nil {
			list = append(list, filepath.Dir(filepath.Dir(p)))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(home, ".local"))
	}
	return append(list, "/usr/local", "/usr", "/opt/conda")
}

// driverMajor returns the major version of the newest CUDA that the driver supports, such as 12 for CUDA 12.4.
func (d *Device) driverMajor() int {
	major, _, _ := strings.Cut(d.is.CUDA, ".")
	v, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return v
}

func fileName(name string, major int) string {
	if runtime.GOOS == "windows" {
		return fmt.Sprintf("%s64_%d.dll", name, major)
	}
	return fmt.Sprintf("lib%s.so.%d", name, major)
}

// Libraries loads all vendor libraries and returns versions and paths: cublas, cublas_path, cudnn, cudnn_path.
func (d *Device) Libraries() map[string]string {
	if d.enter("looking for libraries") == nil {
		defer d.leave()
		// A missing library is just not in the result.
		_ = d.needBlas()
		_ = d.needDNN()
	}
	out := make(map[string]string)
	for name, version := range d.libraries {
		out[name] = version
	}
	if d.blas != nil && d.blas.err == nil {
		out["cublas_path"] = d.blas.path
	}
	if d.dnn != nil && d.dnn.err == nil {
		out["cudnn_path"] = d.dnn.path
	}
	if d.nvrtc != nil && d.nvrtc.err == nil { // loaded only when something is compiled
		out["nvrtc_path"] = d.nvrtc.path
	}
	return out
}

// MissingLibraries returns for each vendor library that Libraries does not name the reason: not found, or refused.
func (d *Device) MissingLibraries() map[string]error {
	d.Libraries()
	out := make(map[string]error)
	if d.blas != nil && d.blas.err != nil {
		out["cublas"] = d.blas.err
	}
	if d.dnn != nil && d.dnn.err != nil {
		out["cudnn"] = d.dnn.err
	}
	if d.nvrtc != nil && d.nvrtc.err != nil {
		out["nvrtc"] = d.nvrtc.err
	}
	return out
}

func (d *Device) addLibrary(name, version string) {
	if d.libraries == nil {
		d.libraries = make(map[string]string)
	}
	d.libraries[name] = version
}
