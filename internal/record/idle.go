package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Commands in the recorder's control file.
const (
	controlStop   = "s" // end all recording
	controlRecord = "r" // begin a window
	controlIdle   = "i" // end the window
)

// ArmedFolder returns the folder of a recording. of is the folder itself, or the ID of a process with the CUDA recorder
// or the Python hook, or of its ancestor. The error is ErrUsage if there is no such recording.
func ArmedFolder(of string) (string, error) {
	if pid, err := strconv.Atoi(of); err == nil {
		if dir := folderOf(pid); dir != "" {
			return dir, nil
		}
		if !isAlive(pid) {
			return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the recorder of process %s: there is no process %s", of, of).WithFix("give the number of a running one, or the folder that gpuprof run named")
		}
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the recorder of process %d: neither it nor a process that it started has one", pid).
			WithFix("start a Python program with gpuprof run -- COMMAND, any CUDA program with gpuprof run --cuda --idle -- COMMAND")
	}
	info, err := os.Stat(of)
	if err == nil && !info.IsDir() {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding a recording: %s is no folder", of).WithFix("give the folder that gpuprof run named, or the number of the program's process")
	}
	if err != nil {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding a recording: there is no folder %s", of).WithFix("give the folder that gpuprof run named, or the number of the program's process")
	}
	dir, err := filepath.Abs(of)
	if err != nil {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the folder %s: %w", of, err).WithFix("give its whole path")
	}
	return dir, nil
}

// folderOf returns the recording folder of a process or of a descendant, or "".
func folderOf(pid int) string {
	proc := fmt.Sprintf("/proc/%d", pid)
	text, _ := os.ReadFile(proc + "/environ") // unreadable for a process of another user
	env := strings.Split(string(text), "\x00")
	if dir := lookup(env, envCUDA); dir != "" {
		return dir
	}
	if hook := lookup(env, envHook); hook != "" {
		if status, err := outside.ReadFound(filepath.Join(hook, "status")); err == nil {
			return filepath.Dir(string(status))
		}
	}
	threads, _ := filepath.Glob(proc + "/task/*/children") // any thread of the process may have started a child
	for _, path := range threads {
		children, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil && n > 0 {
				if dir := folderOf(n); dir != "" {
					return dir
				}
			}
		}
	}
	return ""
}

// Window records one window in a running program whose recorder waits for requests (Options.Idle), by o's Steps, Skip,
// Window, WindowAfter and Longest. The result has the window's traces, recorder events and warnings. If ctx ends, it
// has what was recorded so far.
func Window(ctx context.Context, dir string, o *Options) (*Result, error) {
	if err := MayRecord(dir); err != nil {
		return nil, err
	}
	w := newStretch(o, dir)
	for _, path := range append(listRecordings(dir), listTraces(dir)...) {
		w.old[path] = true
	}
	return w.recordWindow(ctx)
}

func (w *stretch) recordWindow(ctx context.Context) (*Result, error) {
	from := sizeOf(filepath.Join(w.dir, cudaStatus))
	if err := writeControl(w.dir, controlRecord); err != nil {
		return nil, err
	}
	for ctx.Err() == nil && !w.isRecorded(ctx, time.Now()) && anyArmed(readCUDA(w.dir)) {
		select {
		case <-ctx.Done():
		case <-time.After(followEvery):
		}
	}
	if err := writeControl(w.dir, controlIdle); err != nil {
		return nil, err
	}
	return w.collectWindow(context.WithoutCancel(ctx), from)
}

// MayRecord returns ErrUsage if no window can be recorded in a folder now.
func MayRecord(dir string) error {
	state, err := outside.ReadFound(filepath.Join(dir, cudaControl))
	switch all := readCUDA(dir); {
	case errors.Is(err, os.ErrNotExist) && len(all) == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: no recorder waits there", dir).WithFix("start the program with gpuprof run --cuda --idle -- COMMAND, and wait until it uses the GPU")
	case string(state) == controlRecord:
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: another one is being recorded", dir).WithFix("wait for its end")
	case !anyArmed(all):
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: no process there has an armed recorder", dir).WithFix("start the program with gpuprof run --cuda --idle -- COMMAND, and wait until it uses the GPU")
	}
	return nil
}

// anyArmed reports whether a running process's recorder waits for a request to record.
func anyArmed(all []CUDAProcess) bool {
	return slices.ContainsFunc(all, func(p CUDAProcess) bool { return p.Armed && isAlive(p.PID) })
}

func writeControl(dir, state string) error {
	if err := outside.WriteFile(filepath.Join(dir, cudaControl), []byte(state), 0o600); err != nil {
		return gpuprof.Errorf(nil, "steering the recorder in %s: %w", dir, err).WithFix("run as the user that runs the program")
	}
	return nil
}

// listRecordings lists the CUDA recordings in a folder that are not yet renamed to traces.
func listRecordings(dir string) []string {
	return outside.Dir(dir).Glob("cuda-*.gpt")
}

// closeWithin limits the wait for the recorders to close their files.
const closeWithin = 30 * time.Second

// collectWindow waits until the window's recordings are closed, and renames them to traces. from is the size of the
// status file before the window, bytes.
func (w *stretch) collectWindow(ctx context.Context, from int64) (*Result, error) {
	until := time.Now().Add(closeWithin)
	for !w.isClosed() && time.Now().Before(until) {
		time.Sleep(followEvery / 4)
	}
	left, err := w.cutToWindow(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{CUDA: w.processesSince(from, left), Traces: []string{}, Warnings: []gpuprof.Warning{}}
	for _, path := range w.files() {
		if !hasKernel(path) {
			continue
		}
		// Ignore a missing file: the gpuprof that started the program renames files at the program's end.
		if err := os.Rename(path, filepath.Join(w.dir, traceName(path))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return r, gpuprof.Errorf(nil, "taking over the recording %s: %w", path, err).WithFix("give it to gpuprof analyze as it is")
		}
	}
	for _, path := range listTraces(w.dir) {
		if !w.old[path] {
			r.Traces = append(r.Traces, path)
		}
	}
	for i := range r.CUDA {
		explainCUDAProcess(w.o, r, &r.CUDA[i])
	}
	return r, ctx.Err()
}

// processesSince reads the processes from the status file, starting at byte from. A recorder at its size limit begins
// another file within the window: that file is removed, and its records count as left out.
func (w *stretch) processesSince(from int64, left map[string]int64) (out []CUDAProcess) {
	all := readCUDAFrom(w.dir, from)
	full := map[int]int{} // indices in out of recordings that reached the size limit, by process
	for i := range all {
		p := &all[i]
		if first, ok := full[p.PID]; ok && p.File != "" {
			out[first].LeftOut += p.Records
			_ = os.Remove(filepath.Join(w.dir, p.File)) // otherwise the file would count as another window
			continue
		}
		p.LeftOut = left[p.File]
		out = append(out, *p)
		if p.Ended == "limit" {
			full[p.PID] = len(out) - 1
		}
	}
	return out
}

// listTraces lists the traces in a folder.
func listTraces(dir string) []string {
	return outside.Dir(dir).Glob("trace-*.gpt")
}

// isClosed reports whether every recording of the window is closed.
func (w *stretch) isClosed() bool {
	return !slices.ContainsFunc(w.files(), func(path string) bool { return !hasEnd(path) && isAlive(pidOf(path)) })
}

func pidOf(path string) int {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "cuda-"), ".gpt")
	pid, _, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0
	}
	return n
}

// traceName returns the file name of a finished recording, with its rank if it has one.
func traceName(path string) string {
	name := "trace-" + strings.TrimPrefix(filepath.Base(path), "cuda-")
	if rank := rankOf(path); rank != "" {
		name = strings.TrimSuffix(name, ".gpt") + "-rank" + rank + ".gpt"
	}
	return name
}

// HasRecorder reports whether a folder has a file of the Python hook or of the CUDA recorder.
func HasRecorder(dir string) bool {
	return slices.ContainsFunc([]string{cudaStatus, cudaConfig, statusName}, func(name string) bool { return hasFile(dir, name) })
}

func hasFile(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// Gone reports whether the program of a recording has ended, or records no more.
func Gone(dir string) bool {
	if hasFile(dir, cudaConfig) {
		all := readCUDA(dir)
		return len(all) > 0 && !slices.ContainsFunc(all, func(p CUDAProcess) bool { return isAlive(p.PID) && (p.Ended == "" || p.Armed) })
	}
	if hasFile(dir, cudaStatus) {
		return true // gpuprof removes the recorder's settings when the program ends
	}
	all := ReadHook(dir).Processes
	return (len(all) > 0 || hasFile(dir, ResultFile)) && !slices.ContainsFunc(all, func(p Process) bool { return isAlive(p.PID) })
}
