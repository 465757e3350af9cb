package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof/internal/record"
)

// terminal opens a pseudo-terminal 100 columns wide: the end a program writes
// to, and a function that closes it and returns what it showed.
func terminal(t *testing.T) (tty *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	var done sync.WaitGroup
	// Reading fails once the other end is closed, which ends the copy.
	done.Go(func() { _, _ = io.Copy(&text, master) })
	return tty, func() string {
		tty.Close()
		done.Wait()
		return text.String()
	}
}

// The state of a recording is told on a terminal, once for each, and nowhere else.
func TestStateIsForTerminals(t *testing.T) {
	states := []record.Process{{PID: 1}, {PID: 1}, {PID: 1, Began: true, Kind: "optimizer"}, {PID: 1, Began: true, Kind: "optimizer", Recorded: 2}}
	say := func(quiet bool, to *os.File) {
		p := &program{runProgramCmd: &runProgramCmd{Steps: 5}, options: record.Options{Skip: 9}, app: &app{tables: wired.tables(), stderr: to, quiet: quiet}}
		for i := range states {
			p.sayState(&record.Hook{Processes: states[i : i+1]})
		}
	}
	tty, shown := terminal(t)
	say(false, tty)
	want := "gpuprof: waiting for step 10\r\ngpuprof: recording 5 steps\r\ngpuprof: recording step 3 of 5\r\n"
	if got := shown(); got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	tty, shown = terminal(t)
	say(true, tty)
	if got := shown(); got != "" {
		t.Errorf("with --quiet: %q", got)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "pipe"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	say(false, file)
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("beside a terminal: %v, %v", info, err)
	}
}

func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, c := range []struct {
		name            string
		noColor         bool
		quiet           bool
		color, progress bool
	}{
		{"plain", false, false, true, true},
		{"no colour", true, false, false, true},
		{"quiet", false, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, shownOut := terminal(t)
			errs, shownErr := terminal(t)
			s, _ := fakeRun(t.Context(), t, out, errs, "ok")
			s.app.noColor, s.app.quiet = c.noColor, c.quiet
			if w := s.app.width(); w != 100 {
				t.Errorf("width %d, want 100", w)
			}
			if err := s.finish(); err != nil {
				t.Error(err)
			}
			text, progress := shownOut(), shownErr()
			if strings.Contains(text, "\x1b[") != c.color {
				t.Errorf("colour wanted %v: %q", c.color, text)
			}
			if strings.Contains(progress, "fake: sample") != c.progress {
				t.Errorf("progress wanted %v: %q", c.progress, progress)
			}
		})
	}
}
