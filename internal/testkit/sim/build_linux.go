package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof"
)

// builder compiles the simulated libraries. It caches objects by the hash of their sources.
type builder struct {
	root    string // root folder of the module
	cache   string
	tool    string // g++ and its version, part of every cache key
	asan    bool
	missing []string // functions the driver is built without
	// generated has the sources of generated kernels, by the path that go generate gives them.
	generated map[string]string
}

// unit is one translation unit.
type unit struct {
	path   string   // relative to root
	text   string   // source of a generated kernel
	kernel bool     // CUDA source, compiled as C++ with deviceHeader
	fast   bool     // compiled with optimization, since it computes matrix products
	define []string // additional -D options
	object string
}

// part is one shared library: its file name, further names (symbolic links) and translation units.
type part struct {
	file    string
	aliases []string
	units   []unit
}

const compiler = "g++"

// errNoCompiler is the error on a machine without g++.
var errNoCompiler = gpuprof.Errorf(nil, "building the simulated CUDA driver: g++ not found").WithFix("install it (Debian: apt-get install g++)")

func newBuilder(asan bool, missing []string) (*builder, error) {
	b := &builder{asan: asan, missing: slices.Sorted(slices.Values(missing))}
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return nil, errNoCompiler
	}
	b.tool = string(version)
	if b.root, err = moduleRoot(); err != nil {
		return nil, err
	}
	if b.cache, err = cacheDir(); err != nil {
		return nil, err
	}
	b.generated, err = b.generatedKernels()
	return b, err
}

// moduleRoot returns the folder with gpuprof's go.mod, at or above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/gpuprof/gpuprof\n")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", gpuprof.Errorf(nil, "building the simulated CUDA driver: %s is not inside gpuprof's sources", dir).WithFix("run the test from there")
		}
	}
}

// temporary makes the cache folder of this process on a machine whose user cache cannot be written.
var temporary = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "gpuprof-sim-") })

func cacheDir() (string, error) {
	if dir, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(dir, "gpuprof-sim")
		if err := os.MkdirAll(dir, 0o755); err == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	return temporary()
}

// walk calls visit with the path, relative to the root, of every file that may be a source of the libraries.
func (b *builder) walk(visit func(path string) error) error {
	for _, top := range []string{"workloads", "internal"} {
		err := filepath.WalkDir(filepath.Join(b.root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if err == nil && d.Name() == "testdata" {
					return filepath.SkipDir
				}
				return err
			}
			rel, err := filepath.Rel(b.root, path)
			if err != nil {
				return err
			}
			return visit(rel)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var includes = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)

// read adds a file and, recursively, the files that it includes by quoted name to texts, by path.
func (b *builder) read(path string, texts map[string]string) error {
	if _, done := texts[path]; done {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return b.add(path, string(text), texts)
}

// add is read for a file whose text is given.
func (b *builder) add(path, text string, texts map[string]string) error {
	texts[path] = text
	for _, m := range includes.FindAllStringSubmatch(text, -1) {
		if err := b.read(filepath.Join(filepath.Dir(path), m[1]), texts); err != nil {
			return fmt.Errorf("%s includes %s: %w", path, m[1], err)
		}
	}
	return nil
}

// content returns a hash of the unit's source and all included files.
func (b *builder) content(u unit) (string, error) {
	texts := make(map[string]string)
	paths := []string{deviceHeader, u.path}
	switch {
	case u.text != "":
		if err := b.add(filepath.Join(b.root, u.path), u.text, texts); err != nil {
			return "", err
		}
	case !u.kernel:
		paths = paths[1:]
	}
	for _, p := range paths {
		if err := b.read(filepath.Join(b.root, p), texts); err != nil {
			return "", err
		}
	}
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		rel, err := filepath.Rel(b.root, p)
		if err != nil {
			return "", err
		}
		parts = append(parts, rel, texts[p])
	}
	return hash(parts...), nil
}

const (
	simFolder    = "internal/testkit/sim/driver"
	opFolder     = "workloads/op"
	deviceHeader = "workloads/device/cuda/include/device.cuh"
)

// parts lists the libraries. The driver is first, since the others link to it.
func (b *builder) parts() ([]part, error) {
	driver := part{file: "libcuda.so.1"}
	blas := part{file: "libcublas.so.12", aliases: []string{"libcublas.so"}}
	dnn := part{file: "libcudnn.so.9", aliases: []string{"libcudnn.so"}}
	nccl := part{file: "libnccl.so.2", aliases: []string{"libnccl.so"}}
	nvrtc := part{file: "libnvrtc.so.12", aliases: []string{"libnvrtc.so"}}
	for _, path := range slices.Sorted(maps.Keys(b.generated)) {
		driver.units = append(driver.units, unit{path: path, text: b.generated[path], kernel: true})
	}
	err := b.walk(func(path string) error {
		name := filepath.Base(path)
		switch {
		case b.generated[path] != "": // a file that go generate wrote: already in driver.units
		case filepath.Ext(path) == ".cu":
			driver.units = append(driver.units, unit{path: path, kernel: true})
		case filepath.Dir(path) != simFolder || filepath.Ext(path) != ".cpp":
		case strings.HasPrefix(name, "cublas"):
			blas.units = append(blas.units, unit{path: path, fast: true})
		case strings.HasPrefix(name, "cudnn"):
			dnn.units = append(dnn.units, unit{path: path, fast: true})
		case strings.HasPrefix(name, "nccl"):
			nccl.units = append(nccl.units, unit{path: path})
		case strings.HasPrefix(name, "nvrtc"):
			// The simulated NVRTC compiles kernels with the compiler and headers of this build.
			include := filepath.Join(b.root, filepath.Dir(deviceHeader))
			nvrtc.units = append(nvrtc.units, unit{path: path, define: []string{fmt.Sprintf("GPUPROF_SIM_INCLUDE=%q", include)}})
		default:
			driver.units = append(driver.units, unit{path: path})
		}
		return nil
	})
	return []part{driver, blas, dnn, nccl, nvrtc}, err
}

func (b *builder) flags(u unit) []string {
	f := []string{"-std=gnu++17", "-fPIC", "-fvisibility=hidden", "-pthread", "-DGPUPROF_SIM", "-Wall",
		"-ffp-contract=off"}
	if u.fast {
		// The libraries' sums may be in any order, so -ffast-math is allowed.
		f = append(f, "-O2", "-ftree-vectorize", "-ffast-math", "-fno-finite-math-only")
	} else {
		f = append(f, "-O1")
	}
	if runtime.GOARCH == "amd64" && hasFMA() {
		f = append(f, "-mavx2", "-mfma", "-mf16c")
	}
	for _, d := range u.define {
		f = append(f, "-D"+d)
	}
	if b.asan {
		f = append(f, "-fsanitize=address", "-fno-omit-frame-pointer", "-g1")
	}
	return f
}

// hasFMA reports whether this processor has FMA and AVX2. Without FMA, the C library computes fma in software.
var hasFMA = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(text, []byte(" fma ")) && bytes.Contains(text, []byte(" avx2 "))
})

// source returns the compiler's input: a file, or "-" and text for standard input. The text puts a kernel's source into
// an anonymous namespace, since kernels of two files may use the same helper names; headers are outside of it.
func (b *builder) source(u unit) (file, text string) {
	path := filepath.Join(b.root, u.path)
	if !u.kernel {
		return path, ""
	}
	device := filepath.Join(b.root, deviceHeader)
	if u.text != "" {
		return "-", fmt.Sprintf("#include %q\nnamespace {\n#line 1 %q\n%s\n}\n", device, path, u.text)
	}
	return "-", fmt.Sprintf("#include %q\nnamespace {\n#include %q\n}\n", device, path)
}

// object returns the path of the unit's object file. Checkouts of equal content share it, unless the unit's flags
// contain a path of the checkout.
func (b *builder) object(u unit) (string, error) {
	content, err := b.content(u)
	if err != nil {
		return "", fmt.Errorf("building the simulated CUDA driver: %w", err)
	}
	return filepath.Join(b.cache, "obj", hash(b.tool, strings.Join(b.flags(u), " "), content)+".o"), nil
}

// compile compiles the unit, unless its object file exists.
func (b *builder) compile(u *unit) (err error) {
	if u.object, err = b.object(*u); err != nil {
		return err
	}
	if _, err := os.Stat(u.object); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(u.object), 0o755); err != nil {
		return err
	}
	file, text := b.source(*u)
	part := u.object + fmt.Sprintf(".%d", os.Getpid())
	args := slices.Concat(b.flags(*u), []string{"-ffile-prefix-map=" + b.root + "/=", "-I" + filepath.Join(b.root, simFolder), "-x", "c++", "-c", file, "-o", part})
	cmd := exec.Command(compiler, args...)
	cmd.Dir = filepath.Join(b.root, filepath.Dir(u.path))
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the simulated CUDA driver: %s: %w\n%s", u.path, err, out)
	}
	return os.Rename(part, u.object)
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// compileAll compiles the units, one at a time on each core.
func (b *builder) compileAll(units []*unit) error {
	todo := make(chan *unit)
	errs := make([]error, runtime.NumCPU())
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for u := range todo {
				errs[i] = errors.Join(errs[i], b.compile(u))
			}
		})
	}
	for _, u := range units {
		todo <- u
	}
	close(todo)
	wg.Wait()
	return errors.Join(errs...)
}

// build builds the libraries if needed and returns the driver's path. A lock lets one process build at a time.
func (b *builder) build() (string, error) {
	lock, err := os.OpenFile(filepath.Join(b.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	parts, err := b.parts()
	if err != nil {
		return "", err
	}
	var units []*unit
	for i := range parts {
		for j := range parts[i].units {
			units = append(units, &parts[i].units[j])
		}
	}
	if err := b.compileAll(units); err != nil {
		return "", err
	}
	key := []string{b.tool, strings.Join(b.missing, ","), fmt.Sprint(b.asan)}
	for _, u := range units {
		key = append(key, u.object)
	}
	id := hash(key...)
	dir := filepath.Join(b.cache, "lib", id)
	lib := filepath.Join(dir, parts[0].file)
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	prune(filepath.Join(b.cache, "lib"))
	prune(filepath.Join(b.cache, "obj"))
	// Link in a temporary folder, then rename: a folder of libraries is either complete or missing.
	aside := dir + ".new"
	if err := errors.Join(os.RemoveAll(aside), os.MkdirAll(aside, 0o755)); err != nil {
		return "", err
	}
	for i, p := range parts {
		if err := b.link(aside, id, p, i == 0); err != nil {
			return "", err
		}
	}
	return lib, os.Rename(aside, dir)
}

// prune removes entries of a cache folder that are older than 30 days: every change of a source leaves files behind.
func prune(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // an entry that stays costs only space
		}
	}
}

// link links library p into dir. The driver's soname contains id, the hash of the build, so that the other libraries
// load the driver of their own build and no installed one.
func (b *builder) link(dir, id string, p part, driver bool) error {
	soname := "libgpuprof-sim-" + id + ".so"
	args := []string{"-shared", "-pthread", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-o", filepath.Join(dir, p.file)}
	if b.asan {
		args = append(args, "-fsanitize=address")
	}
	for _, u := range p.units {
		args = append(args, u.object)
	}
	if driver {
		args = append(args, "-Wl,-soname,"+soname, "-ldl")
		if len(b.missing) > 0 {
			script := filepath.Join(dir, "hidden.map")
			if err := os.WriteFile(script, []byte("{ local: "+strings.Join(b.missing, "; ")+"; };\n"), 0o644); err != nil {
				return err
			}
			args = append(args, "-Wl,--version-script="+script)
		}
		if err := os.Symlink(p.file, filepath.Join(dir, soname)); err != nil {
			return err
		}
	} else {
		args = append(args, "-Wl,-soname,"+p.file, "-Wl,-rpath,$ORIGIN", filepath.Join(dir, soname))
	}
	for _, alias := range p.aliases {
		if err := os.Symlink(p.file, filepath.Join(dir, alias)); err != nil {
			return err
		}
	}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("linking the simulated %s: %w\n%s", p.file, err, out)
	}
	return nil
}
