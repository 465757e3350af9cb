//go:build !unix

package collate

import (
	"sync/atomic"

	"github.com/gpuprof/gpuprof"
)

// WorkerMain reports that this process is not a worker.
func WorkerMain() bool { return false }

func refuseProcesses() error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "setting worker_kind=process: this system cannot share memory with a child through a file").WithFix("use --set worker_kind=goroutine")
}

func hireProcess(*recipe, []*slot, *atomic.Int64) (worker, error) { return nil, refuseProcesses() }
