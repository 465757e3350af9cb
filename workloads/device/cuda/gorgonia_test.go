//go:build gorgonia

package cuda

import (
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestGorgonia makes sure that what the other tests of this build ran through
// is gorgonia.org/cu, and that it is linked to one driver for good.
func TestGorgonia(t *testing.T) {
	d := openSim(t, Options{})
	if got := d.Info().Facts["binding"]; got != "gorgonia" {
		t.Errorf("the table is filled by %s", got)
	}
	_, err := Open(Options{Library: "libc.so.6"})
	says(t, err, gpuprof.ErrDevice, "linked", "libc.so.6", "-tags gorgonia")
	_, err = Open(Options{Library: "libnosuchcuda.so.7"})
	says(t, err, gpuprof.ErrDevice, "libnosuchcuda.so.7 was not found")
	linked, err := Open(Options{AllowSimulated: true})
	ok(t, err)
	ok(t, linked.Close())
}
