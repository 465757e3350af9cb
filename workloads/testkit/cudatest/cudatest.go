// Package cudatest says which driver a test of CUDA code runs on: the simulated
// one, or, where GPUPROF_DEVICE=cuda is set, the installed one and its GPU. A
// compiled test binary so serves a machine without Go.
package cudatest

import (
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// Variable is the environment variable that chooses: empty or "sim" for the
// simulated driver, "cuda" for the installed one.
const Variable = "GPUPROF_DEVICE"

// Installed reports whether tests run on the installed driver. A value that
// names neither driver fails the test.
func Installed(t testing.TB) bool {
	t.Helper()
	switch v := os.Getenv(Variable); v {
	case "", "sim":
		return false
	case "cuda":
		return true
	default:
		t.Fatalf("reading %s=%s: it is neither cuda nor sim; unset it for the simulated driver", Variable, v)
		return false
	}
}

// Driver prepares the driver that tests run on and returns cuda.Options'
// Library and AllowSimulated for it. The simulator is told configuration
// (see package sim), its libraries stand in for the vendor's, and when the
// test ends nothing may be left behind, used wrongly or used in no order.
// The installed driver takes no configuration and checks nothing of that.
func Driver(t testing.TB, configuration string) (library string, simulated bool) {
	t.Helper()
	if Installed(t) {
		return "", false
	}
	library = sim.Library(t)
	sim.Configure(t, library, configuration)
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(library))
	t.Cleanup(func() { sim.Check(t, library) })
	return library, true
}
