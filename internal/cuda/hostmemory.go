package cuda

import (
	"math"
	"os"
	"strconv"
	"strings"
)

// availableHostMemory is what the system could still give without swapping:
// the least of MemAvailable and what the control group leaves. Pinning more
// than that takes a machine down. Where neither can be read there is no bound.
func availableHostMemory() int64 {
	left := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
				if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					left = min(left, kb<<10)
				}
			}
		}
	}
	// A process sees its own group's files here when it has a namespace of its
	// own, as in a container.
	const group = "/sys/fs/cgroup/"
	if most, ok := readInt(group + "memory.max"); ok {
		if used, ok := readInt(group + "memory.current"); ok {
			left = min(left, max(0, most-used))
		}
	}
	return left
}

func readInt(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return v, err == nil
}
