// Command gpuprof measures deep-learning workloads stage by stage, on a GPU
// or on the CPU, and says how far each figure can be believed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if worked() {
		return // this process was started as a worker of a workload
	}
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	// The first signal asks for an orderly end; from then on the next one
	// acts as it does on any program, at once (but see children).
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// endSignals are those that ask a program to end.
func endSignals() []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup has asked to live on
		ends = append(ends, syscall.SIGHUP)
	}
	return ends
}
