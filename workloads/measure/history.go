package measure

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
)

// The history of processes on this machine has one line of JSON per process, in the cache folder. A run of one process
// estimates the variation between processes from it.
const (
	historyFile = "processes.jsonl"
	historyMost = 256 << 10 // bytes; a larger file loses its older half
	// newSession is the time without a process after which a new session begins.
	newSession = 30 * time.Minute
)

type processNote struct {
	Machine string  `json:"machine"` // hash of the facts on which times depend
	Program string  `json:"program"` // hash of workload, settings and build
	Process string  `json:"process"` // several measurements of one process count once
	At      int64   `json:"at"`      // Unix time of its start in seconds
	MedianS float64 `json:"median_s"`
}

// rememberProcess estimates from the history how much another process may differ. It appends this process if its run
// is complete, not simulated and has enough samples. It skips runs by RunTurns, which alternate with another process.
func (r *runner) rememberProcess() {
	if r.turns || r.plan.CacheDir == "" || r.plan.Build == "" {
		return
	}
	path := filepath.Join(r.plan.CacheDir, historyFile)
	note := r.currentNote()
	notes := readHistory(path)
	r.run.Another = anotherOf(notes, note)
	if r.run.Status == gpuprof.Complete && !r.run.Simulated() && r.run.Step.N() >= minSamples && r.run.Step.Median > 0 {
		appendHistory(path, notes, note)
	}
}

func (r *runner) currentNote() processNote {
	d := &r.run.Device
	host, _ := os.Hostname() // several machines may share a home folder
	return processNote{
		Machine: hashed(8, host, d.Kind, d.Name, d.Arch, d.CPU, d.CPUCores, d.CPUQuota, d.DeviceInfo["uuid_hash"], d.DeviceInfo["driver"]),
		Program: hashed(8, r.plan.Workload.Name(), r.plan.Preset, r.plan.Knobs, r.plan.Mode, r.plan.Build),
		Process: fmt.Sprintf("%d-%d", os.Getpid(), events.Began().Unix()),
		At:      r.started.Unix(), MedianS: r.run.Step.Median,
	}
}

// hashed returns a hash of its arguments in 2n letters, "" for values that JSON cannot represent, such as NaN.
func hashed(n int, what ...any) string {
	b, err := json.Marshal(what)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:n])
}

// readHistory reads the history and skips lines that it cannot decode, since another version may have written them.
func readHistory(path string) []processNote {
	b, err := outside.ReadFound(path)
	if err != nil {
		return nil
	}
	var out []processNote
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var n processNote
		if json.Unmarshal(lines.Bytes(), &n) == nil && n.MedianS > 0 && !math.IsInf(n.MedianS, 0) {
			out = append(out, n)
		}
	}
	return out
}

// appendHistory appends a line atomically. If the folder is not writable, only the history is lost.
func appendHistory(path string, notes []processNote, note processNote) {
	line, err := json.Marshal(note)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	if info, err := os.Stat(path); err == nil && info.Size() > historyMost {
		var kept []byte
		for _, n := range notes[len(notes)/2:] {
			if b, err := json.Marshal(n); err == nil {
				kept = append(append(kept, b...), '\n')
			}
		}
		if (atomicfile.Options{Mode: 0o644}).Write(path, kept) != nil {
			return
		}
	}
	f, err := outside.OpenRegular(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// anotherOf estimates the variation between processes: from the history of this program, or if that is too short, of
// the machine's other programs; nil if both are too short.
func anotherOf(notes []processNote, of processNote) *gpuprof.Another {
	programs := map[string][]processNote{}
	seen := map[[2]string]bool{}
	for _, n := range slices.Backward(notes) { // the latest note of a process counts
		key := [2]string{n.Program, n.Process}
		if n.Machine != of.Machine || n.Process == of.Process || seen[key] {
			continue
		}
		seen[key] = true
		programs[n.Program] = append(programs[n.Program], n)
	}
	own := programs[of.Program]
	if share, ok := stats.AnotherProcess([][][]float64{sessionsOf(own)}); ok {
		return &gpuprof.Another{Share: share, Processes: len(own), Same: true}
	}
	var all [][][]float64
	count := 0
	for _, list := range programs {
		if len(list) > 1 { // a single process shows no variation
			all, count = append(all, sessionsOf(list)), count+len(list)
		}
	}
	if share, ok := stats.AnotherProcess(all); ok {
		return &gpuprof.Another{Share: share, Processes: count}
	}
	return nil
}

// sessionsOf returns the logarithms of the median step times, one list per session.
func sessionsOf(notes []processNote) [][]float64 {
	notes = slices.Clone(notes)
	slices.SortStableFunc(notes, func(a, b processNote) int { return cmp.Compare(a.At, b.At) })
	var out [][]float64
	for i, n := range notes {
		if i == 0 || n.At-notes[i-1].At > int64(newSession/time.Second) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], math.Log(n.MedianS))
	}
	return out
}

// anotherOfRuns estimates the variation between processes from the processes of one run.
func anotherOfRuns(runs []*gpuprof.Run) *gpuprof.Another {
	var logs []float64
	for _, r := range runs {
		if r.Step.N() > 0 && r.Step.Median > 0 {
			logs = append(logs, math.Log(r.Step.Median))
		}
	}
	if share, ok := stats.AnotherProcess([][][]float64{{logs}}); ok {
		return &gpuprof.Another{Share: share, Processes: len(logs), Same: true}
	}
	return nil
}
