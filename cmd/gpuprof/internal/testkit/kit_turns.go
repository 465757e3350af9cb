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

// fakeTurns is a script that measures in turns like gpuprof, with figures from a file. $1 is its name, "old" or "new".
// After $2 lines of input it misbehaves in the way that $3 names. It logs each line that it reads. The script and its
// child process hold the pipe "alive" open until they end.
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

// figures returns a run with two samples of the step per turn, and one of the stage "all". Each sample of turn i is
// times[i], in seconds.
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

// Turns is a folder with two programs, "old" and "new", that measure in turns like gpuprof.
type Turns struct {
	Dir      string
	Requests *loadtest.Requests // load in the results of both programs; nil for none
}

// NewTurns writes the two programs. In each of n turns they measure 1 s. The test fails if one of their processes
// outlives it.
func NewTurns(t *testing.T, n int) *Turns {
	t.Helper()
	f := &Turns{Dir: t.TempDir()}
	for _, name := range []string{"alive", "never"} {
		if err := syscall.Mkfifo(filepath.Join(f.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Every started process holds the pipe open, so reading it ends when all of them have ended.
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

// Command returns the command line of the program "old" or "new". what describes how it misbehaves: a line number and a
// word, "0 dies".
func (f *Turns) Command(name, what string) []string {
	return append([]string{filepath.Join(f.Dir, "fake"), name}, strings.Fields(what)...)
}

// Figures sets what the programs "old" and "new" measure in each turn of a block, in seconds.
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
