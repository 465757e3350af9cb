// Command gpuprof shows why a GPU program is slow, compares builds of it, and measures reference workloads.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// Set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=abcdef".
var version, commit string

func main() { os.Exit(runProcess(&wiring{})) }

func runProcess(w *wiring) int {
	if runWorker() {
		return 0 // this process was started as a worker of a workload
	}
	if answerVersion(os.Getenv, os.Stdout) {
		return 0 // this process was started to ask a libcupti for its version
	}
	ctx, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, cli.EndSignals()...)
	go cli.EndAtFirst(signals, nil, end, func() <-chan time.Time { return time.After(cli.SameMoment) }, func() { signal.Stop(signals) })
	return runCommand(ctx, w, os.Args[1:], os.Stdout, os.Stderr)
}
