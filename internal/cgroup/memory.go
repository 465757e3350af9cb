package cgroup

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unlimited is the least number that means "no limit": version 1 writes the largest page-aligned number.
const unlimited = 1 << 60

// MemoryLimit returns the tightest memory limit, bytes, beyond which the system throttles or kills; false without a
// limit.
func MemoryLimit(root fs.FS) (int64, bool) {
	least := int64(math.MaxInt64)
	two, one := findGroups(root, "memory")
	for _, dir := range two {
		least = min(least, readLimit(root, dir, "memory.max"), readLimit(root, dir, "memory.high"))
	}
	for _, dir := range one {
		least = min(least, readLimit(root, dir, "memory.limit_in_bytes"), outerLimit(root, dir))
	}
	if least >= unlimited {
		return 0, false
	}
	return least, true
}

// MemoryAvailable returns the memory that this process can allocate before the machine swaps or a control group
// throttles or kills it, bytes: the least of MemAvailable and of the unused memory of each group. It returns
// math.MaxInt64 if nothing is readable.
func MemoryAvailable(root fs.FS) int64 {
	left := int64(math.MaxInt64)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		if kib, ok := numberAfter(text, "MemAvailable:"); ok && kib <= math.MaxInt64>>10 {
			left = kib << 10
		}
	}
	two, one := findGroups(root, "memory")
	for _, dir := range two {
		most := min(readLimit(root, dir, "memory.max"), readLimit(root, dir, "memory.high"))
		left = min(left, unusedMemory(root, dir, most, "memory.current", "inactive_file"))
	}
	for _, dir := range one {
		most := min(readLimit(root, dir, "memory.limit_in_bytes"), outerLimit(root, dir))
		left = min(left, unusedMemory(root, dir, most, "memory.usage_in_bytes", "total_inactive_file"))
	}
	return left
}

// unusedMemory returns the unused memory of a group below the limit most, bytes. File pages count as unused, since the
// system frees them on demand.
func unusedMemory(root fs.FS, dir string, most int64, usage, cached string) int64 {
	if most >= unlimited {
		return math.MaxInt64
	}
	used, ok := readNumber(root, path.Join(dir, usage))
	if !ok {
		return math.MaxInt64
	}
	if stat, err := fs.ReadFile(root, path.Join(dir, "memory.stat")); err == nil {
		if n, ok := numberAfter(stat, cached); ok {
			used -= min(n, used)
		}
	}
	return max(0, most-used)
}

// readLimit returns the number in a group's file; math.MaxInt64 for no limit.
func readLimit(root fs.FS, dir, name string) int64 {
	if v, ok := readNumber(root, path.Join(dir, name)); ok {
		return v
	}
	return math.MaxInt64
}

// outerLimit returns the tightest limit of all ancestors of a version 1 group, also of those that a container does not
// show.
func outerLimit(root fs.FS, dir string) int64 {
	if stat, err := fs.ReadFile(root, path.Join(dir, "memory.stat")); err == nil {
		if v, ok := numberAfter(stat, "hierarchical_memory_limit"); ok {
			return v
		}
	}
	return math.MaxInt64
}

// readNumber reads a file with one integer, 0 or more; "max" is no number.
func readNumber(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return v, err == nil && v >= 0
}

// numberAfter returns the number after a key at the start of a line.
func numberAfter(text []byte, key string) (int64, bool) {
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			v, err := strconv.ParseInt(f[1], 10, 64)
			return v, err == nil && v >= 0
		}
	}
	return 0, false
}
