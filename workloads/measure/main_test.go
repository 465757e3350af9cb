package measure

import (
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/collate"
)

// The test program serves as collate's worker processes.
func TestMain(m *testing.M) {
	// The race detector otherwise sleeps a second at every process's end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if collate.WorkerMain() {
		return
	}
	os.Exit(m.Run())
}
