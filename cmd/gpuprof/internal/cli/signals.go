package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameMoment is the time within which several signals count as one: timeout(1) signals a program, and then its process
// group.
const SameMoment = 250 * time.Millisecond

// EndAtFirst calls end at the first signal, so that the program shuts down. It then ignores further signals until the
// channel that moment returns delivers, and calls release. After release the next signal may kill the program. If done
// is closed, EndAtFirst returns without further calls.
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
	if !signal.Ignored(syscall.SIGHUP) { // under nohup a hang-up must not end the program
		ends = append(ends, syscall.SIGHUP)
	}
	return ends
}

// NotifyInterrupt returns a context that SIGINT, SIGTERM or SIGHUP cancels.
func NotifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Pause waits for the duration d. If the context ends before, it returns the context's error.
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
