// Package owner names temporary files and folders after the process that created them. A killed process cannot remove
// its files; by the names, another gpuprof removes them after that process has ended. It never touches files of other
// machines and containers.
package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Process is a process of this machine.
type Process struct {
	Pid   int
	Start uint64 // clock ticks since the machine's start; 0 if unknown
}

// Self returns this process.
func Self() Process { return Process{os.Getpid(), StartOf(os.Getpid())} }

// Alive reports whether the process still runs. If a start is unknown, any process with the same ID counts.
func (p Process) Alive() bool {
	found, err := os.FindProcess(p.Pid)
	if err != nil {
		return false
	}
	defer found.Release() //nolint:errcheck // a handle of the system's
	if runtime.GOOS == "windows" {
		return true
	}
	if err := found.Signal(syscall.Signal(0)); err != nil && !errors.Is(err, os.ErrPermission) {
		return false
	}
	now := StartOf(p.Pid)
	return !isZombie(p.Pid) && (p.Start == 0 || now == 0 || now == p.Start)
}

// Prefix begins the names of temporary files and folders in the user's folders.
const Prefix = ".gpuprof-"

// Numbers of base-36 digits for the machine, the process and its start. All names have equal length, since the length
// of a path can shift a program's memory layout.
const hostDigits, pidDigits, startDigits = 6, 5, 8

var tagged = lazyregexp.New(fmt.Sprintf(`-([0-9a-z]{%d})-([0-9a-z]{%d})-([0-9a-z]{%d})-[0-9A-Z]+`, hostDigits, pidDigits, startDigits))

// TempName returns a unique name for a file or folder of this process: prefix, owner, random part, suffix.
func TempName(prefix, suffix string) string {
	return fmt.Sprintf("%s%s-%s%s", strings.TrimSuffix(prefix, "-"), Self().ownerTag(), rand.Text()[:10], suffix)
}

// ownerTag returns the part of a name that identifies the process.
func (p Process) ownerTag() string {
	return "-" + hostTag() + "-" + base36(uint64(p.Pid), pidDigits) + "-" + base36(p.Start, startDigits)
}

// Tagged returns a name of TempName with the process as owner.
func (p Process) Tagged(name string) string {
	if m := tagged.FindStringSubmatchIndex(name); m != nil {
		return name[:m[0]] + p.ownerTag() + name[m[7]:]
	}
	return name
}

// CreateTemp creates a file with a TempName in a folder, readable by this user only.
func CreateTemp(dir, suffix string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, TempName(Prefix, suffix)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// MkdirTemp creates a folder with a TempName, accessible by this user only.
func MkdirTemp(dir, prefix string) (string, error) {
	made := filepath.Join(dir, TempName(prefix, ""))
	return made, os.Mkdir(made, 0o700)
}

// Of returns the process that created a file of this name; ok is false if the name is from another machine, or has no
// owner.
func Of(name string) (Process, bool) {
	m := tagged.FindStringSubmatch(name)
	if len(m) < 4 || m[1] != hostTag() {
		return Process{}, false
	}
	pid, err := strconv.ParseUint(m[2], 36, 32)
	start, err2 := strconv.ParseUint(m[3], 36, 64)
	return Process{int(pid), start}, errors.Join(err, err2) == nil && pid > 0
}

// Left reports whether an ended process of this user left a file or folder. It does not follow links.
func Left(path string) bool {
	p, is := Of(filepath.Base(path))
	if !is || p.Alive() {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink == 0 && IsOwn(info)
}

// Sweep removes ended processes' files and folders with Prefix from a folder. It ignores errors: such files do no harm.
func Sweep(dir string) {
	entries, _ := outside.Dir(dir).ReadDir(".")
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); strings.HasPrefix(e.Name(), Prefix) && Left(path) {
			_ = os.RemoveAll(path)
		}
	}
}

// hostTag identifies this machine and, in a container, its process namespace: a process ID is valid only there, and
// machines may share a temporary folder.
func hostTag() string {
	name, _ := os.Hostname() // "" if unknown
	id, _ := os.ReadFile("/etc/machine-id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%s\x00%s", name, id, space)
	return base36(sum.Sum64(), hostDigits)
}

// base36 returns the last digits of a number, zero-padded.
func base36(n uint64, digits int) string {
	text := strings.Repeat("0", digits) + strconv.FormatUint(n, 36)
	return text[len(text)-digits:]
}
