//go:build !cgo || !linux

package nvml

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// A build that cannot ask NVML says why, and everything that asks it goes on
// without an answer.
func TestWithoutCgo(t *testing.T) {
	lib, err := Open()
	says := "built without cgo; build gpuprof with CGO_ENABLED=1"
	if runtime.GOOS != "linux" {
		says = "on Linux only"
	}
	if Built || lib != nil || !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "telemetry: ") || !strings.Contains(err.Error(), says) {
		t.Errorf("built %t, %v, %v", Built, lib, err)
	}
	if list := lib.Devices(); list != nil {
		t.Errorf("devices %v", list)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	d := new(Device)
	if _, ok := d.EnergyJ(); ok {
		t.Error("energy is known")
	}
	if _, ok := d.Foreign(); ok {
		t.Error("foreign processes are known")
	}
}
