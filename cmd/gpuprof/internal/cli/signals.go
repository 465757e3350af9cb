package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameMoment is the time within which several signals are one: timeout(1), for example, sends
// its signal to the program and once more to the group that the program is in.
const SameMoment = 250 * time.Millisecond

// EndAtFirst ends the program in order at the first signal. The next signal ends it at once, as in any program (but
// see judge.Children), unless it comes in the same moment: release is called after that moment, and not if done is
// closed before.
func EndAtFirst(signals <-chan os.Signal, done <-chan struct{}, end context.CancelFunc, moment func() <-chan time.Time, release func()) {
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

// EndSignals lists the signals that ask a program to end.
func EndSignals() []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup has asked to live on
		ends = append(ends, syscall.SIGHUP)
	}
	return ends
}

// NotifyInterrupt is a context that an interrupt, a termination or a hang-up ends.
func NotifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Pause waits, or ends early with the context's error.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
