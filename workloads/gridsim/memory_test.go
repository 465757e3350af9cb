package gridsim

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// poolless is a device seen through another, as in a measurement: it has the methods of a
// pool, and they say that there is none.
type poolless struct{ device.Device }

var errPoolless = errors.New("the device has no memory pool")

func (poolless) TrimPool() error  { return errPoolless }
func (poolless) ResetPeak() error { return errPoolless }
func (poolless) Reserved() int64  { return 0 }

// On a device without a pool of its own the workload's pool is trimmed and its peak reset.
func TestTrimsWithoutADevicePool(t *testing.T) {
	for _, set := range []string{"pool_trim=every:1,impl=split", "pool_trim=every:2,roi=on,max_split=32", "pool_trim=every:1,reset_stats=sync", "reset_stats=on"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, poolless{openHost(t, host.Options{})}, append([]string{"allocator=pool", "grid=96"}, strings.Split(set, ",")...)...)
			run(t, s, 9)
			if c := s.memory.counts(); strings.Contains(set, "impl=split") && c.frees == 0 {
				t.Errorf("no segment was returned: %+v", c)
			}
		})
	}
	s := openOn(t, poolless{openHost(t, host.Options{})}, "reset_stats=on")
	run(t, s, 3)
}
