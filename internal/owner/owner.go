// Package owner names temporary files and folders after the process that makes them. A process
// that is killed cannot remove its own: the next gpuprof does, once it sees that their owner is
// gone. Owners on other machines and in other containers are left alone.
package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// Process is a process of this machine.
type Process struct {
	Pid   int
	Start uint64 // clock ticks after the machine's start; 0 unknown
}

// Self is this process.
func Self() Process { return Process{os.Getpid(), StartOf(os.Getpid())} }

// Alive reports whether the process still runs. One that cannot be told from another of its
// number does.
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
	return !ended(p.Pid) && (p.Start == 0 || now == 0 || now == p.Start)
}

// Prefix begins the names of temporary files and folders beside others.
const Prefix = ".gpuprof-"

// Lengths in a name, digits of base 36: the machine, the process and its start. Names are
// equally long, since the length of a path can change where a program lies in memory.
const hostDigits, pidDigits, startDigits = 6, 5, 8

var tagged = regexp.MustCompile(fmt.Sprintf(`-([0-9a-z]{%d})-([0-9a-z]{%d})-([0-9a-z]{%d})-[0-9A-Z]+`, hostDigits, pidDigits, startDigits))

// TempName is a name for a new file or folder of this process: prefix, the owner, a random part
// and suffix.
func TempName(prefix, suffix string) string {
	return fmt.Sprintf("%s%s-%s%s", strings.TrimSuffix(prefix, "-"), Self().tag(), rand.Text()[:10], suffix)
}

// tag is the part of a name that tells whose it is.
func (p Process) tag() string {
	return "-" + host() + "-" + base36(uint64(p.Pid), pidDigits) + "-" + base36(p.Start, startDigits)
}

// Tagged is a name that tells its owner as if the process had made it.
func (p Process) Tagged(name string) string {
	if m := tagged.FindStringSubmatchIndex(name); m != nil {
		return name[:m[0]] + p.tag() + name[m[7]:]
	}
	return name
}

// CreateTemp makes such a file in a folder, for its owner alone.
func CreateTemp(dir, suffix string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, TempName(Prefix, suffix)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// MkdirTemp makes such a folder in another, for its owner alone.
func MkdirTemp(dir, prefix string) (string, error) {
	made := filepath.Join(dir, TempName(prefix, ""))
	return made, os.Mkdir(made, 0o700)
}

// Of is the process of this machine that a name was made by; false where it is another
// machine's, or no such name.
func Of(name string) (Process, bool) {
	m := tagged.FindStringSubmatch(name)
	if len(m) < 4 || m[1] != host() {
		return Process{}, false
	}
	pid, err := strconv.ParseUint(m[2], 36, 32)
	start, err2 := strconv.ParseUint(m[3], 36, 64)
	return Process{int(pid), start}, errors.Join(err, err2) == nil && pid > 0
}

// Left reports whether a file or folder was left behind by a process of this user that is gone.
// Links are not followed.
func Left(path string) bool {
	p, is := Of(filepath.Base(path))
	if !is || p.Alive() {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink == 0 && IsOwn(info)
}

// Sweep removes from a folder what processes that are gone have left behind under Prefix. What
// cannot be read or removed stays: it is only untidy.
func Sweep(dir string) {
	entries, _ := outside.Dir(dir).ReadDir(".")
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); strings.HasPrefix(e.Name(), Prefix) && Left(path) {
			_ = os.RemoveAll(path)
		}
	}
}

// host is a short name of this machine and, in a container, of its processes: their numbers
// mean nothing elsewhere. A temporary folder may be shared by machines.
func host() string {
	name, _ := os.Hostname() // "" where unknown
	id, _ := os.ReadFile("/etc/machine-id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%s\x00%s", name, id, space)
	return base36(sum.Sum64(), hostDigits)
}

// base36 is the last digits of a number.
func base36(n uint64, digits int) string {
	text := strings.Repeat("0", digits) + strconv.FormatUint(n, 36)
	return text[len(text)-digits:]
}
