package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// What the recorder reads in the control file of its folder.
const (
	controlStop   = "s" // for good
	controlRecord = "r" // begin a window
	controlIdle   = "i" // end it
)

// ArmedFolder is the folder of a recorder that waits for a window: the folder itself, or that of
// the process with such a number or of one that it started. ErrUsage where none is armed.
func ArmedFolder(of string) (string, error) {
	if pid, err := strconv.Atoi(of); err == nil {
		if dir := folderOf(pid); dir != "" {
			return dir, nil
		}
		if !alive(pid) {
			return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the recorder of process %s: there is no process %s", of, of).WithFix("give the number of a running one, or the folder that gpuprof run named")
		}
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the recorder of process %d: neither it nor a process that it started has one", pid).WithFix("start the program with gpuprof run --cuda --idle -- COMMAND")
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

// folderOf is the folder of the recorder in a process or in one that it started, "" none.
func folderOf(pid int) string {
	proc := fmt.Sprintf("/proc/%d", pid)
	env, _ := os.ReadFile(proc + "/environ") // none of a process of another user
	for _, v := range strings.Split(string(env), "\x00") {
		if dir, ok := strings.CutPrefix(v, envCUDA+"="); ok && dir != "" {
			return dir
		}
	}
	threads, _ := filepath.Glob(proc + "/task/*/children") // any thread may have started it
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

// Window records a window in the program that is armed in a folder: o has Steps, Skip, Window,
// WindowAfter and Longest. The result has Traces, under names that no other window has, what the
// recorder tells of the processes meanwhile, and warnings. When ctx ends the window does, and what was recorded by
// then is returned.
func Window(ctx context.Context, dir string, o *Options) (*Result, error) {
	if err := MayRecord(dir); err != nil {
		return nil, err
	}
	w := newStretch(o, dir)
	for _, path := range append(recordings(dir), finished(dir)...) {
		w.old[path] = true
	}
	return w.window(ctx)
}

// window is Window once it is known that one can be recorded.
func (w *stretch) window(ctx context.Context) (*Result, error) {
	told := sizeOf(filepath.Join(w.dir, cudaStatus))
	if err := control(w.dir, controlRecord); err != nil {
		return nil, err
	}
	for ctx.Err() == nil && !w.recorded(ctx, time.Now()) && armed(readCUDA(w.dir)) {
		select {
		case <-ctx.Done():
		case <-time.After(followEvery):
		}
	}
	if err := control(w.dir, controlIdle); err != nil {
		return nil, err
	}
	return w.take(context.WithoutCancel(ctx), told)
}

// MayRecord says why no window can be recorded in a folder now.
func MayRecord(dir string) error {
	state, err := outside.ReadFound(filepath.Join(dir, cudaControl))
	switch all := readCUDA(dir); {
	case errors.Is(err, os.ErrNotExist) && len(all) == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: no recorder waits there", dir).WithFix("start the program with gpuprof run --cuda --idle -- COMMAND, and wait until it uses the GPU")
	case string(state) == controlRecord:
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: another one is being recorded", dir).WithFix("wait for its end")
	case !armed(all):
		return gpuprof.Errorf(gpuprof.ErrUsage, "recording a window in %s: no process there has an armed recorder", dir).WithFix("start the program with gpuprof run --cuda --idle -- COMMAND, and wait until it uses the GPU")
	}
	return nil
}

// armed says that a process is there whose recorder can record a window.
func armed(all []CUDAProcess) bool {
	for i := range all {
		if p := &all[i]; p.Armed && alive(p.PID) {
			return true
		}
	}
	return false
}

func control(dir, state string) error {
	if err := outside.WriteFile(filepath.Join(dir, cudaControl), []byte(state), 0o600); err != nil {
		return gpuprof.Errorf(nil, "steering the recorder in %s: %w", dir, err).WithFix("run as the user that runs the program")
	}
	return nil
}

// recordings are those of a folder that are being written, or were not taken over.
func recordings(dir string) []string {
	return outside.Dir(dir).Glob("cuda-*.gpt")
}

// closeWithin is how long recorders may take to close their files.
const closeWithin = 30 * time.Second

// take waits until the window's recordings are closed, and gives them their names; told is how far the recorder's
// account went before the window.
func (w *stretch) take(ctx context.Context, told int64) (*Result, error) {
	until := time.Now().Add(closeWithin)
	for !w.closed() && time.Now().Before(until) {
		time.Sleep(followEvery / 4)
	}
	left, err := w.limit(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{CUDA: w.meanwhile(told, left), Traces: []string{}, Warnings: []gpuprof.Warning{}}
	for _, path := range w.files() {
		if !hasKernel(path) {
			continue
		}
		// At the end of the program the gpuprof that started it does the same.
		if err := os.Rename(path, filepath.Join(w.dir, traceName(path))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return r, gpuprof.Errorf(nil, "taking over the recording %s: %w", path, err).WithFix("give it to gpuprof analyze as it is")
		}
	}
	for _, path := range finished(w.dir) {
		if !w.old[path] {
			r.Traces = append(r.Traces, path)
		}
	}
	for i := range r.CUDA {
		explainCUDAProcess(w.o, r, &r.CUDA[i])
	}
	return r, ctx.Err()
}

// meanwhile is what the recorder told of each process since its account had so many bytes. Where a recording reached the
// recorder's limit the next one began before the window was ended: that one lies after the window, and goes.
func (w *stretch) meanwhile(told int64, left map[string]int64) (out []CUDAProcess) {
	all := readCUDAFrom(w.dir, told)
	full := map[int]int{} // where in out
	for i := range all {
		p := &all[i]
		if first, ok := full[p.PID]; ok && p.File != "" {
			out[first].LeftOut += p.Records
			_ = os.Remove(filepath.Join(w.dir, p.File)) // a leftover would be one window more
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

// finished are the recordings of a folder that were taken over.
func finished(dir string) []string {
	return outside.Dir(dir).Glob("trace-*.gpt")
}

// closed says that no process writes a recording of the window any more.
func (w *stretch) closed() bool {
	for _, path := range recordings(w.dir) {
		if !w.old[path] && !hasEnd(path) && alive(pidOf(path)) {
			return false
		}
	}
	return true
}

// pidOf is the process that a recording is of, by its name.
func pidOf(path string) int {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "cuda-"), ".gpt")
	pid, _, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0
	}
	return n
}

// traceName is what a finished recording is called.
func traceName(path string) string {
	name := "trace-" + strings.TrimPrefix(filepath.Base(path), "cuda-")
	if rank := rankOf(path); rank != "" {
		name = strings.TrimSuffix(name, ".gpt") + "-rank" + rank + ".gpt"
	}
	return name
}

// HasRecorder says that the hook or the CUDA recorder has told something in a folder, or may do so.
func HasRecorder(dir string) bool {
	for _, name := range []string{cudaStatus, cudaConfig, statusName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Gone says that the program of a folder has ended, or records nothing any more.
func Gone(dir string) bool {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	if there(cudaConfig) {
		all := readCUDA(dir)
		for i := range all {
			if p := &all[i]; alive(p.PID) && (p.Ended == "" || p.Armed) {
				return false
			}
		}
		return len(all) > 0
	}
	if there(cudaStatus) {
		return true // the recorder's settings are taken away at the end of the program
	}
	h := ReadHook(dir)
	for i := range h.Processes {
		if alive(h.Processes[i].PID) {
			return false
		}
	}
	return len(h.Processes) > 0 || there("telemetry.json")
}
