//go:build unix

package testkit

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// fakeTurns is a program that takes turns as a gpuprof does, with figures from a
// file. $1 says after how many lines it does what $2 says instead. It notes each
// line it reads, and it and a program that it starts hold a pipe open while they
// live.
const fakeTurns = `#!/bin/sh
name=$1 at=$2 do=$3
cd "$(dirname "$0")"
exec 9>alive
sleep 1000 </dev/null >/dev/null 2>&1 &
bad() {
	case $do in
	dies) echo "gpuprof: the device is lost" >&2; exit 7 ;;
	refuses) echo "gpuprof: gpuprof run has no flag" >&2; exit 2 ;;
	full) echo "gpuprof: no memory is left" >&2; exit 4 ;;
	leaves) exit 0 ;;
	garbles) echo "BenchmarkA 100 1000 ns/op" ;;
	newer) echo '{"ready":99}' ;;
	older) echo '{"ready":1}' ;;
	empties) echo '{"turn":{"samples":0,"stages":0,"rates":0,"seconds":1}}' ;;
	hangs) read x <never ;;
	stays) trap "" TERM; while :; do read x <never; done ;;
	esac
}
if [ $at = 0 ]; then bad; elif [ $do = serves ]; then echo '{"ready":2,"serves":true}'; else echo '{"ready":2}'; fi
i=0
while read line; do
	i=$((i + 1))
	echo "$name $line" >>log
	if [ $i = $at ]; then bad; continue; fi
	case $line in end|serve*) cat "$name.json"; continue ;; esac
	echo '{"turn":{"samples":2,"stages":1,"rates":1,"seconds":0.5}}'
done
`

// figures is the result of a process: two samples of the step a turn, and one of the
// stage, which are times[turn].
func figures(times []float64) *gpuprof.Run {
	run := &gpuprof.Run{
		Head: document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof"}), Status: gpuprof.Complete, Workload: "fake", Preset: "small", Mode: gpuprof.Steady,
		Device: gpuprof.Env{Kind: "host", Name: "fake"}, Counters: map[string]float64{"launches": 3},
	}
	var step, rates []float64
	for i, t := range times {
		step = append(step, t, t)
		rates = append(rates, 1/t)
		for k := range 2 {
			run.Order = append(run.Order, gpuprof.Order{Block: i, StartS: float64(2*i + k)})
			run.Flags = append(run.Flags, nil)
		}
	}
	series := func(x []float64) *gpuprof.Series { return &gpuprof.Series{Unit: "s", Runs: [][]float64{x}} }
	run.Step, run.Throughput = series(step), &gpuprof.Throughput{Unit: "x/s", Series: series(rates)}
	run.Stages = []gpuprof.StageResult{{Name: "all", Parent: "step", Exposed: series(times), Device: series(times)}}
	return run
}

// waitForProcesses waits until every process has closed its end of the pipe.
func waitForProcesses(t *testing.T, alive *os.File) {
	t.Helper()
	defer alive.Close()
	if err := alive.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Errorf("a process is left: %v", err)
	}
}

// Turns are two programs that take turns as gpuprof does, "old" and "new", in a folder.
type Turns struct {
	Dir      string
	Requests *loadtest.Requests // in the results of both; nil for none
}

// NewTurns writes the programs; each measures 1 s in each of n turns. The test fails where a process
// of theirs outlives it.
func NewTurns(t *testing.T, n int) *Turns {
	t.Helper()
	f := &Turns{Dir: t.TempDir()}
	for _, name := range []string{"alive", "never"} {
		if err := syscall.Mkfifo(filepath.Join(f.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever holds the pipe lives: it ends when all that was started has.
	alive, err := os.OpenFile(filepath.Join(f.Dir, "alive"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { waitForProcesses(t, alive) })
	if err := os.WriteFile(filepath.Join(f.Dir, "fake"), []byte(fakeTurns), 0o755); err != nil {
		t.Fatal(err)
	}
	f.Figures(t, slices.Repeat([]float64{1}, n), slices.Repeat([]float64{1}, n))
	return f
}

// Command is the command line of "old" or "new", which does as what says, such as "0 dies".
func (f *Turns) Command(name, what string) []string {
	return append([]string{filepath.Join(f.Dir, "fake"), name}, strings.Fields(what)...)
}

// Figures are what each side's process measures in each turn of a block, seconds.
func (f *Turns) Figures(t *testing.T, old, now []float64) {
	t.Helper()
	for name, times := range map[string][]float64{"old": old, "new": now} {
		run := figures(times)
		run.Requests = f.Requests
		text, err := json.Marshal(map[string]*gpuprof.Run{"run": run})
		if err == nil {
			err = os.WriteFile(filepath.Join(f.Dir, name+".json"), append(text, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
