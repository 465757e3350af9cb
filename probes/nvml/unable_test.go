//go:build !linux || nodlopen || !(amd64 || arm64 || ppc64le || riscv64 || loong64)

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// A build that cannot ask NVML gives the reason, and all callers continue without an answer.
func TestUnable(t *testing.T) {
	lib, err := Open()
	if lib != nil || !errors.Is(err, gpuprof.ErrDevice) || !strings.HasPrefix(err.Error(), "this ") {
		t.Errorf("%v, %v", lib, err)
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
