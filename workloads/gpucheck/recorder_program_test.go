//go:build linux && !race

package gpucheck

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Environment variables of the program that is recorded.
const (
	toldVariable   = "GPUPROF_CHECK_TOLD"        // the file that it tells what it did in
	windowVariable = "GPUPROF_CHECK_WINDOW"      // the gpuprof that records a window of it meanwhile; empty: none
	graphsVariable = "GPUPROF_CHECK_GRAPHS"      // set: it replays a CUDA graph, and nothing else
	plantVariable  = "GPUPROF_CHECK_WRONG_COUNT" // set: it tells one launch more than it made
)

// folderVariable names the folder of the recorder in this process.
const folderVariable = "GPUPROF_CUDA"

// told holds the recorded program's own counts and events.
type told struct {
	Launches, Copies int64
	// Of the launches those that graphs made, and how often a graph was launched.
	InGraphs, Graphs int64
	Spins            []float64 // times of its spin kernels between events, s, in order
	// Cost of a launch to the host, s: the recorder idle, a window being recorded, after that.
	Idle, Recording, After float64
	InWindow               int64 // launches that were timed for Recording
}

// TestRecordedProgram is the program that the recorder is shown. Started by
// TestRecorderCounts and TestRecorderCost it runs under the recorder, and by itself without.
func TestRecordedProgram(t *testing.T) {
	r := newRig(t)
	var w told
	if program := os.Getenv(windowVariable); program != "" {
		w.window(r, program)
	} else if os.Getenv(graphsVariable) != "" {
		w.graphs(r)
	} else {
		w.kernels(r)
	}
	m := r.dev.Meter()
	w.Launches, w.Copies = m.Launches, m.CopiesH2D+m.CopiesD2H+m.CopiesD2D
	if os.Getenv(plantVariable) != "" {
		w.Launches++
	}
	text, err := json.Marshal(w)
	r.ok(err)
	if dir := os.Getenv(folderVariable); dir != "" {
		// A program in Go that just leaves waits for its last records a short while only, which a busy machine exceeds.
		r.ok(os.WriteFile(filepath.Join(dir, "cuda.control"), []byte("s"), 0o600))
		for !said(r, dir, "end") {
			runtime.Gosched()
		}
	}
	path := os.Getenv(toldVariable)
	if path == "" {
		path = filepath.Join(t.TempDir(), "told.json")
	}
	r.ok(os.WriteFile(path, text, 0o600))
}

// kernels launches the kernels that the test counts, and those that events time.
func (w *told) kernels(r *rig) {
	null, err := r.dev.Load(&device.Kernel{Name: "null"})
	r.ok(err)
	for range pick(r, 20_000, 200) {
		r.ok(r.s.Launch(null, 1, &device.Args{}))
	}
	r.ok(r.s.Sync())
	device, host := r.alloc(1<<16, device.OnDevice), r.alloc(1<<16, device.Pinned)
	for range pick(r, 200, 20) {
		r.ok(r.s.Copy(device, 0, host, 0, 1<<16))
		r.ok(r.s.Copy(host, 0, device, 0, 1<<16))
	}
	r.ok(r.s.Sync())
	r.free(device, host)
	w.Spins = spins(r)
}

// graphs launches a graph of kernels again and again, after launches of the same kernels without it.
func (w *told) graphs(r *rig) {
	const nodes = 10
	null, err := r.dev.Load(&device.Kernel{Name: "null"})
	r.ok(err)
	launch := func() error {
		for range nodes {
			if err := r.s.Launch(null, 1, &device.Args{}); err != nil {
				return err
			}
		}
		return nil
	}
	graph, err := r.dev.Capture(r.s, launch)
	r.ok(err)
	r.ok(launch())
	for range pick(r, 2000, 20) {
		r.ok(graph.Enqueue(r.s))
		w.Graphs, w.InGraphs = w.Graphs+1, w.InGraphs+nodes
	}
	device, host := r.alloc(1<<16, device.OnDevice), r.alloc(1<<16, device.Pinned)
	r.ok(r.s.Copy(device, 0, host, 0, 1<<16))
	r.ok(r.s.Sync())
	r.free(device, host)
}

// spinsTimed is how many spin kernels are timed, after one that lets the host run ahead.
func spinsTimed(r *rig) int { return pick(r, 100, 5) }

// spins times spin kernels of 0.5 and 1 ms in turn: so long that the cost of the events around
// them, about 2 us, is far below the 3 % that are judged.
func spins(r *rig) []float64 {
	f, err := r.dev.Load(&device.Kernel{Name: "spin", Sig: "i"})
	r.ok(err)
	n := spinsTimed(r)
	marks := r.events(2 * n)
	launch := func(us int) {
		var args device.Args
		args.SetInt(0, us*1000)
		r.ok(r.s.Launch(f, 1, &args))
	}
	launch(pick(r, 20_000, 10))
	for i := range n {
		r.ok(r.s.Record(marks[2*i]))
		launch(pick(r, 500*(1+i%2), 10))
		r.ok(r.s.Record(marks[2*i+1]))
	}
	r.ok(r.s.Sync())
	out := make([]float64, n)
	for i := range out {
		out[i] = r.between(marks[2*i], marks[2*i+1])
	}
	return out
}

// batch is launches in a row, begun after the stream was empty: few enough to fit its queue.
type batch float64 // s a launch

const batchLaunches = 500

func timeBatch(r *rig, null device.Func) batch {
	begin := time.Now()
	for range batchLaunches {
		r.ok(r.s.Launch(null, 1, &device.Args{}))
	}
	took := time.Since(begin)
	r.ok(r.s.Sync())
	return batch(took.Seconds() / batchLaunches)
}

func cost(b []batch) float64 {
	v := make([]float64, len(b))
	for i := range b {
		v[i] = float64(b[i])
	}
	return median(v)
}

// launchCost is what a launch costs the host now.
func launchCost(r *rig) float64 {
	null, err := r.dev.Load(&device.Kernel{Name: "null"})
	r.ok(err)
	var all []batch
	for range pick(r, 400, 3) {
		all = append(all, timeBatch(r, null))
	}
	return cost(all[len(all)/4:])
}

// exitInterrupted is gpuprof's exit code after Ctrl-C.
const exitInterrupted = 130

// window times launches with the recorder idle, while gpuprof records a window of this process,
// and after it.
func (w *told) window(r *rig, program string) {
	dir := os.Getenv(folderVariable)
	null, err := r.dev.Load(&device.Kernel{Name: "null"})
	r.ok(err)
	for !said(r, dir, "armed") { // launches in the meantime are warm-up
		timeBatch(r, null)
	}
	w.Idle = launchCost(r)
	// Nothing is taken for a step, and the window ends when it is interrupted.
	cmd := exec.Command(program, "--quiet", "run", "record", dir, "--no-analyze", "--steps", "1000000000", "--time-window", "10m")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = plain(os.Environ())
	r.ok(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !said(r, dir, "file") { // the recording is there
		timeBatch(r, null)
		select {
		case err := <-ended:
			r.t.Fatalf("gpuprof run record ended before its window began: %v: %s", err, out.String())
		default:
		}
	}
	var all []batch
	for range pick(r, 400, 20) { // 200,000 launches, 22 MB of records
		all = append(all, timeBatch(r, null))
	}
	r.ok(cmd.Process.Signal(os.Interrupt))
	if err := <-ended; err != nil && cmd.ProcessState.ExitCode() != exitInterrupted {
		r.t.Fatalf("gpuprof run record: %v: %s", err, out.String())
	}
	w.InWindow = int64(len(all) * 3 / 4 * batchLaunches)
	w.Recording = cost(all[len(all)/4:]) // kinds of records are switched on one after the other at the begin
	w.After = launchCost(r)
}

// said reports whether the recorder in this process has reported an event.
func said(r *rig, dir, event string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cuda.jsonl"))
	if err == nil && strings.Contains(string(text), `"event":"error"`) {
		r.t.Fatalf("the recorder gave up: %s", text)
	}
	return err == nil && strings.Contains(string(text), `"event":"`+event+`"`)
}

// plain is the environment without the recorder.
func plain(env []string) (out []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, folderVariable+"=") && !strings.HasPrefix(v, "CUDA_INJECTION64_PATH=") && !strings.HasPrefix(v, "NVTX_INJECTION64_PATH=") {
			out = append(out, v)
		}
	}
	return out
}
