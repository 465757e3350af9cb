package sim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const cuptiFolder = "internal/testkit/sim/cupti"

// CUPTIReleases returns the CUDA releases whose libcupti is simulated: each one whose libcupti differs from its
// predecessor's.
func CUPTIReleases() []string {
	return []string{"11.7", "11.8", "12.0", "12.2", "12.4", "12.6", "12.8", "12.9", "13.0", "13.1", "13.2", "13.3", "13.5"}
}

// CUPTI builds the simulated libcupti of a release and returns its path. The library records the work of the simulated
// driver in the same process. The environment variable GPUPROF_SIM_CUPTI="fault=a,b" of that process requests faults:
//
//	busy         another tool is subscribed
//	driver       libcupti does not work with the driver (error 15)
//	unsupported  subscribing is not supported (error 34)
//	old          libcupti reports a version older than any known one
//	refuses      libcupti refuses a kind of record
//	stall        libcupti's own thread takes half a second for each buffer
//	drops        each query reports seven dropped records
func CUPTI(t testing.TB, release string) string { return cuptiWith(t, release, "") }

// CUPTIWithout builds the library of CUPTI without one of its functions; function is VERSION or BUFFERS.
func CUPTIWithout(t testing.TB, release, function string) string {
	return cuptiWith(t, release, "WITHOUT_"+function)
}

func cuptiWith(t testing.TB, release, define string) string {
	t.Helper()
	key := "cupti " + release + " " + define
	v, _ := built.LoadOrStore(key, new(result))
	r := v.(*result)
	r.once.Do(func() {
		var b *builder
		if b, r.err = newBuilder(false, nil); r.err == nil {
			r.path, r.err = b.buildCUPTI(release, define)
		}
	})
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.path
}

// familyOf returns the number in abi.h of the set of functions that a release exports.
func familyOf(release string) string {
	switch {
	case release >= "13.3":
		return "3"
	case release >= "13.0":
		return "2"
	case release >= "12.6":
		return "1"
	}
	return "0"
}

// buildCUPTI builds libcupti.so.N in a folder named after the release, and returns its path. The library reads its
// release from that folder name.
func (b *builder) buildCUPTI(release, define string) (string, error) {
	lock, err := os.OpenFile(filepath.Join(b.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(b.root, cuptiFolder, "*.cpp"))
	if err != nil || len(sources) == 0 {
		return "", errors.Join(err, os.ErrNotExist)
	}
	args := []string{"-shared", "-pthread", "-o", "", "-Wl,-soname," + soname(release), "-ldl"}
	key := []string{b.tool, release, define}
	for _, s := range sources {
		u := unit{path: filepath.Join(cuptiFolder, filepath.Base(s)), define: []string{"FAMILY=" + familyOf(release)}}
		if define != "" && filepath.Base(s) == "cupti.cpp" {
			u.define = append(u.define, define)
		}
		if err := b.compile(&u); err != nil {
			return "", err
		}
		args, key = append(args, u.object), append(key, u.object)
	}
	dir := filepath.Join(b.cache, "lib", hash(key...), "cupti-"+release)
	lib := filepath.Join(dir, soname(release))
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	args[3] = lib + ".new"
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return lib, os.Rename(args[3], lib)
}

// soname returns the file name under which programs search for a release's libcupti.
func soname(release string) string {
	major, _, _ := strings.Cut(release, ".")
	if major == "11" {
		return "libcupti.so." + release
	}
	return "libcupti.so." + major
}
