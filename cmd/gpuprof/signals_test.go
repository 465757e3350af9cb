package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeout(1) sends its signal twice, to the program and to its group: that asks for an
// orderly end, which keeps what was measured, and not for an end at once.
func TestSignalsOfOneMoment(t *testing.T) {
	signals, over, done := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	ended, released := make(chan bool, 1), make(chan bool, 1)
	go endAtFirst(signals, done, func() { ended <- true }, func() <-chan time.Time { return over }, func() { released <- true })
	signals <- os.Interrupt
	<-ended
	for range 3 { // taken, and so lost to the system's own way of ending a program
		signals <- os.Interrupt
	}
	if len(released) > 0 {
		t.Error("the next signal would end the program within the moment of the first")
	}
	over <- time.Time{}
	<-released

	// Where no signal comes it ends with what it was for, before the first and after it.
	for _, first := range []bool{false, true} {
		returned, done := make(chan bool), make(chan struct{})
		go func() {
			endAtFirst(signals, done, func() {}, func() <-chan time.Time { return nil }, func() { t.Error("released") })
			close(returned)
		}()
		if first {
			signals <- os.Interrupt
		}
		close(done)
		<-returned
	}
}

// A verb that waits for a pipe which the user named ends with the first signal: both while the
// pipe has no writer, and while its writer writes nothing.
func TestWaitingForAPipeEnds(t *testing.T) {
	for _, args := range []string{"report PIPE", "analyze PIPE", "compare PIPE PIPE", "gate PIPE PIPE", "history add PIPE --store store", "baseline add PIPE --dir baselines", "check e3nn --vectors PIPE", "pprof PIPE"} {
		for _, writer := range []bool{false, true} {
			dir := t.TempDir()
			t.Chdir(dir)
			path := filepath.Join(dir, "run.json")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			code := make(chan int)
			var said bytes.Buffer
			go func() {
				code <- run(ctx, &wired, strings.Fields(strings.ReplaceAll(args, "PIPE", path)), &said, &said)
			}()
			if writer {
				f, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = f.Close() })
			}
			cancel()
			if got := <-code; got != exitInterrupted || !strings.Contains(said.String(), "interrupted") {
				t.Errorf("gpuprof %s, writer %t: exit code %d, %s", args, writer, got, &said)
			}
		}
	}
}
