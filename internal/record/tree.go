package record

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/gpuprof/gpuprof"
)

const (
	// sampleEvery is the shortest interval of telemetry: it resolves a program's phases at negligible cost.
	sampleEvery = 500 * time.Millisecond
	// sampleCost limits the sampler's CPU time to 1/sampleCost of one processor. Its waits do not count, since they cost
	// the program nothing.
	sampleCost = 500
	// capacity is the number of readings in a track. A full track drops every second reading, and its interval doubles.
	capacity = 1200
	// ticksPerS is the number of clock ticks per second in /proc, which Linux fixes for user programs.
	ticksPerS = 100
)

// tree samples a process and its descendants from /proc; without /proc it stays empty.
type tree struct {
	root   int
	proc   string
	start  time.Time
	cpu    func() time.Duration // CPU time of the sampling thread
	cancel context.CancelFunc
	done   chan struct{}

	times  []float64
	tracks []treeTrack
	peak   float64
	page   float64
	buf    []byte

	hook     string // the folder of the Python hook, "" none
	unhooked map[int]string
}

type treeTrack struct {
	name, unit string
	values     []gpuprof.Number
}

// Indices of tree.tracks, and of the sums of one reading.
const (
	treeCPU = iota
	treeRSS
	treeProcesses
	treeThreads
	treeTracks
)

// startTree samples process pid and its descendants, and notes Python processes whose PYTHONPATH lacks hook, the folder
// of the Python hook.
func startTree(ctx context.Context, pid int, hook string) *tree {
	t := &tree{
		root: pid, proc: "/proc", start: time.Now(), cpu: threadTime, done: make(chan struct{}),
		page: float64(os.Getpagesize()), buf: make([]byte, 4096), hook: hook, unhooked: map[int]string{},
		tracks: []treeTrack{{name: "program_cpu_time", unit: "s"}, {name: "program_rss", unit: "B"}, {name: "program_processes", unit: "1"}, {name: "program_threads", unit: "1"}},
	}
	ctx, t.cancel = context.WithCancel(ctx)
	go t.sampleLoop(ctx)
	return t
}

func (t *tree) sampleLoop(ctx context.Context) {
	defer close(t.done)
	runtime.LockOSThread() // threadTime reads the clock of this thread
	defer runtime.UnlockOSThread()
	// Short programs need more than two readings: begin with a tenth of the interval.
	least := sampleEvery / 10
	for {
		cost, alive := t.sampleTimed()
		if !alive {
			return
		}
		if len(t.times) >= capacity {
			t.thinReadings()
			least *= 2
		}
		if least < sampleEvery {
			least += least / 4
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(least, sampleCost*cost)):
		}
	}
}

// sampleTimed takes a reading and returns the CPU time that it took; false if no process is left.
func (t *tree) sampleTimed() (cost time.Duration, alive bool) {
	before := t.cpu()
	alive = t.sampleTree()
	return t.cpu() - before, alive
}

// stopSampling ends the sampling and returns the tracks and the largest total resident memory, bytes.
func (t *tree) stopSampling() (tracks map[string]gpuprof.Track, peak int64) {
	t.cancel()
	<-t.done
	out := map[string]gpuprof.Track{}
	if len(t.times) > 0 {
		for _, tr := range t.tracks {
			out[tr.name] = gpuprof.Track{Unit: tr.unit, TimeS: t.times, Value: tr.values}
		}
	}
	return out, int64(t.peak)
}

// sampleTree takes one reading of all processes; false if none is left.
func (t *tree) sampleTree() bool {
	var sum [treeTracks]float64
	at := time.Since(t.start).Seconds()
	todo := []int{t.root}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if t.readProcess(pid, &sum) {
			todo = t.appendChildren(todo, pid)
		}
	}
	if sum[treeProcesses] == 0 {
		return false
	}
	t.times = append(t.times, at)
	for i := range t.tracks {
		t.tracks[i].values = append(t.tracks[i].values, gpuprof.Number(sum[i]))
	}
	t.peak = max(t.peak, sum[treeRSS])
	return true
}

// readProcess adds one process to sum; false if it has ended. CPU times include children for which the process has
// waited.
func (t *tree) readProcess(pid int, sum *[treeTracks]float64) bool {
	b := t.readFile(filepath.Join(t.proc, strconv.Itoa(pid), "stat"))
	// The process name in brackets may contain any character. Fields 3 and up of proc(5) follow the last bracket.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return false
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 22 || f[0][0] == 'Z' {
		return false
	}
	field := func(n int) float64 { // n: the field's number in proc(5)
		v, err := strconv.ParseFloat(string(f[n-3]), 64)
		if err != nil {
			return 0
		}
		return v
	}
	t.checkPython(pid, b[:end])
	sum[treeCPU] += (field(14) + field(15) + field(16) + field(17)) / ticksPerS
	sum[treeRSS] += field(24) * t.page
	sum[treeProcesses]++
	sum[treeThreads] += field(20)
	return true
}

// mostUnhooked limits the list of processes without the hook.
const mostUnhooked = 16

// checkPython notes a Python process that does not load the hook; head is the beginning of its stat file.
func (t *tree) checkPython(pid int, head []byte) {
	_, name, _ := bytes.Cut(head, []byte("("))
	if t.hook == "" || !bytes.HasPrefix(name, []byte("python")) || len(t.unhooked) >= mostUnhooked {
		return
	}
	python := string(name)
	env, err := os.ReadFile(filepath.Join(t.proc, strconv.Itoa(pid), "environ"))
	if err != nil || len(env) == 0 {
		return
	}
	if bytes.Contains(env, []byte("PYTHONPATH="+t.hook)) {
		delete(t.unhooked, pid) // an earlier reading saw the environment from before exec
		return
	}
	t.unhooked[pid] = python
}

func (t *tree) appendChildren(to []int, pid int) []int {
	dir := filepath.Join(t.proc, strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return to
	}
	for _, th := range threads {
		for _, f := range bytes.Fields(t.readFile(filepath.Join(dir, th.Name(), "children"))) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				to = append(to, n)
			}
		}
	}
	return to
}

func (t *tree) readFile(path string) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, err := syscall.Read(fd, t.buf)
	_ = syscall.Close(fd)
	if err != nil || n <= 0 {
		return nil
	}
	return t.buf[:n]
}

// thinReadings drops every second reading.
func (t *tree) thinReadings() {
	half := len(t.times) / 2
	for i := range half {
		t.times[i] = t.times[2*i]
		for k := range t.tracks {
			t.tracks[k].values[i] = t.tracks[k].values[2*i]
		}
	}
	t.times = t.times[:half]
	for k := range t.tracks {
		t.tracks[k].values = t.tracks[k].values[:half]
	}
}
