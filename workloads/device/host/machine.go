package host

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/gpuprof/gpuprof/internal/cgroup"
)

const (
	assumedCache  = 32 << 20 // bytes, if the system does not report it
	assumedMemory = 4 << 30
)

type machine struct {
	model string
	cache int64
	facts map[string]string
}

// readMachine describes the machine from the files of /proc and /sys in root.
func readMachine(root fs.FS) machine {
	m := machine{model: cpuModel(root), cache: lastLevelCache(root), facts: map[string]string{"cpu_flags": cpuFlags()}}
	if m.cache == 0 {
		m.cache = assumedCache
		m.facts["last_level_cache"] = "unknown, 32 MiB assumed"
	}
	return m
}

func cpuModel(root fs.FS) string {
	info, err := fs.ReadFile(root, "proc/cpuinfo")
	if err == nil {
		if name, ok := findField(info, "model name", ":"); ok && name != "" {
			return name
		}
	}
	return "unknown " + runtime.GOARCH + " processor"
}

// cpuFlags lists the vector extensions that affect the speed of kernels.
func cpuFlags() string {
	var have []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA}, {"avx512f", cpu.X86.HasAVX512F},
		{"asimd", cpu.ARM64.HasASIMD}, {"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			have = append(have, f.name)
		}
	}
	if have == nil {
		return "none of avx2 fma avx512f asimd sve"
	}
	return strings.Join(have, " ")
}

// lastLevelCache returns the size in bytes of the first processor's highest cache level; 0 if unknown.
func lastLevelCache(root fs.FS) int64 {
	dirs, err := fs.Glob(root, "sys/devices/system/cpu/cpu0/cache/index*")
	if err != nil {
		return 0
	}
	var level, size int64
	for _, dir := range dirs {
		kind, err := fs.ReadFile(root, path.Join(dir, "type"))
		if err != nil || strings.TrimSpace(string(kind)) == "Instruction" {
			continue
		}
		l, ok := readNumber(root, path.Join(dir, "level"))
		if !ok || l <= level {
			continue
		}
		if s, ok := readNumber(root, path.Join(dir, "size")); ok {
			level, size = l, s
		}
	}
	return size
}

// defaultMemoryLimit returns nine tenths of the available memory; the program itself needs the rest.
func defaultMemoryLimit(root fs.FS) int64 {
	left := cgroup.MemoryAvailable(root)
	if left == math.MaxInt64 {
		return assumedMemory
	}
	return left / 10 * 9
}

// findField returns the value of the first line "name<sep>value".
func findField(text []byte, name, sep string) (string, bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		k, v, ok := strings.Cut(lines.Text(), sep)
		if ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

func readNumber(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	return parseSize(string(b))
}

// parseSize reads "123", "123 kB", "32768K" or "12M"; "max" is no number.
func parseSize(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	digits := strings.TrimRight(s, " kKMGB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	shift := 0
	switch strings.TrimSpace(s[len(digits):]) {
	case "":
	case "K", "kB":
		shift = 10
	case "M":
		shift = 20
	case "G":
		shift = 30
	default:
		return 0, false
	}
	if n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}
