package host

import (
	"context"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestCeilingsWithinAGroup: the buffers of the rates of memory fit into what the
// control groups leave; what does not fit is not measured, and nothing fails.
func TestCeilingsWithinAGroup(t *testing.T) {
	for left, want := range map[int64]gpuprof.Ceilings{
		0:       {},
		200:     {},
		1 << 20: {CacheBytesPerS: 1},
	} {
		for version, files := range map[string]map[string]string{
			"v2": {
				"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.current": "1000\n",
				"sys/fs/cgroup/a/memory.max": fmt.Sprintln(1000 + left),
			},
			"v1": {
				"proc/self/cgroup": "4:memory:/a/b\n", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1000\n",
				"sys/fs/cgroup/memory/a/memory.limit_in_bytes": fmt.Sprintln(1000 + left),
			},
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", version, left), func(t *testing.T) {
				d, err := open(Options{Threads: 2}, tree(files))
				ok(t, err)
				defer d.Close()
				var c gpuprof.Ceilings
				ok(t, d.memoryRates(context.Background(), &c))
				if c.CacheBytesPerS > 0 {
					c.CacheBytesPerS = 1
				}
				if c != want {
					t.Errorf("measured %+v, want the rates of %+v alone", c, want)
				}
			})
		}
	}
}
