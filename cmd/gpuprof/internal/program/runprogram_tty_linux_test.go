package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/record"
)

// The state of a recording is told on a terminal, once for each, and nowhere else.
func TestStateIsForTerminals(t *testing.T) {
	states := []record.Process{{PID: 1}, {PID: 1}, {PID: 1, Began: true, Kind: "optimizer"}, {PID: 1, Began: true, Kind: "optimizer", Recorded: 2}}
	say := func(quiet bool, to *os.File) {
		p := &program{Cmd: &Cmd{Steps: 5}, options: record.Options{Skip: 9}, app: &cli.App{Tables: &cli.Tables{}, Stderr: to, Quiet: quiet}}
		for i := range states {
			p.noteState(&record.Hook{Processes: states[i : i+1]})
		}
	}
	tty, shown := testkit.Terminal(t)
	say(false, tty)
	want := "gpuprof: waiting for step 10\r\ngpuprof: recording 5 steps\r\ngpuprof: recording step 3 of 5\r\n"
	if got := shown(); got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	tty, shown = testkit.Terminal(t)
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
