// Package cudatest selects the driver of a test of CUDA code: the simulated one, or with GPUPROF_DEVICE=cuda the
// installed one and its GPU. A compiled test binary thus works on a machine without Go.
package cudatest

import (
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// Variable is the environment variable that selects the driver: empty or "sim" for the simulated one, "cuda" for the
// installed one.
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

// Driver prepares the driver of the tests and returns cuda.Options' Library and AllowSimulated for it. The simulator
// gets configuration (see package sim), its libraries replace the vendor's, and at the end the test fails if anything
// was left allocated, used wrongly or used without order. The installed driver ignores the configuration and makes
// none of these checks.
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
