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

// EndAtFirst calls end at the first signal, so that the program ends in order. When the channel of moment delivers, it
// calls release; from then on the next signal kills the program (but see judge.Children). It returns early if done is
// closed.
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

// Pause waits for d, or returns the context's error.
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
