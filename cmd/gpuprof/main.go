// Command gpuprof measures deep-learning workloads stage by stage, on a GPU
// or on the CPU, and says how far each figure can be believed.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if worked() {
		return // this process was started as a worker of a workload
	}
	if answered(os.Getenv, os.Stdout) {
		return // this process was started to ask a library what it is
	}
	ctx, end := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endSignals()...)
	go endAtFirst(signals, nil, end, func() <-chan time.Time { return time.After(sameMoment) }, func() { signal.Stop(signals) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// sameMoment is the time within which several signals are one: timeout(1), for example, sends
// its signal to the program and once more to the group that the program is in.
const sameMoment = 250 * time.Millisecond

// endAtFirst ends the program in order at the first signal. The next one acts as it does on
// any program, at once (but see children), unless it comes in the same moment: release is
// called when that is over, and not where done is closed before.
func endAtFirst(signals <-chan os.Signal, done <-chan struct{}, end context.CancelFunc, moment func() <-chan time.Time, release func()) {
	select {
	case <-signals:
		end()
	case <-done:
		return
	}
	for over := moment(); ; {
		select {
		case <-signals:
		case <-over:
			release()
			return
		case <-done:
			return
		}
	}
}

// endSignals are those that ask a program to end.
func endSignals() []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup has asked to live on
		ends = append(ends, syscall.SIGHUP)
	}
	return ends
}
