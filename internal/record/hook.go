package record

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
)

//go:embed hook/*.py
var hookFiles embed.FS

// PythonLoader is the sitecustomize.py that waits for `import torch` and then loads gpuprof_hook.py from its own
// folder; it appends what it did to the file that the file "status" beside it names.
func PythonLoader() ([]byte, error) { return hookFiles.ReadFile("hook/sitecustomize.py") }

// statusName is the hook's account of what it did, one JSON object a line.
const statusName = "hook.jsonl"

// envHook names the hook's folder, so that a gpuprof run inside another one
// finds the outer hook and takes its place.
const envHook = "GPUPROF_HOOK"

// hookConfig is what the hook reads from config.json.
type hookConfig struct {
	Out          string  `json:"out"`
	Status       string  `json:"status"`
	Steps        int     `json:"steps"`
	Skip         int     `json:"skip"`
	SkipExact    bool    `json:"skip_exact"`
	Shapes       bool    `json:"shapes"`
	Stacks       bool    `json:"stacks"`
	Memory       bool    `json:"memory"`
	WindowS      float64 `json:"window_s"`
	WindowAfterS float64 `json:"window_after_s"`
	LongestS     float64 `json:"longest_s"`
}

// hook is the hook as it lies on disk for one run.
type hook struct {
	scratch *child.Scratch
	dir     string // the folder on PYTHONPATH
	status  string
}

// writeHook puts the hook into a fresh temporary folder. It stays for as long as the program or
// one that it started lives, also where gpuprof is killed: those import the hook.
func writeHook(o *Options) (*hook, error) {
	out, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder %s: %w", o.Dir, err)
	}
	scratch, err := child.NewScratch("hook")
	if err == nil {
		err = scratch.Outlives(envHook + "=" + scratch.Dir)
	}
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the Python hook: %w", err).WithFix("point TMPDIR to one that takes files")
	}
	h := &hook{scratch: scratch, dir: scratch.Dir, status: filepath.Join(out, statusName)}
	config, err := json.Marshal(hookConfig{
		Out: out, Status: h.status, Steps: o.Steps, Skip: o.Skip, SkipExact: o.SkipExact, Shapes: o.Shapes, Stacks: o.Stacks, Memory: o.Memory,
		WindowS: o.Window.Seconds(), WindowAfterS: o.WindowAfter.Seconds(), LongestS: o.longest().Seconds(),
	})
	if err != nil {
		scratch.Close()
		return nil, err
	}
	files := map[string][]byte{"config.json": config, "status": []byte(h.status)}
	modules, err := hookFiles.ReadDir("hook")
	for _, m := range modules {
		if err == nil {
			files[m.Name()], err = hookFiles.ReadFile("hook/" + m.Name())
		}
	}
	if err != nil {
		scratch.Close()
		return nil, err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(h.dir, name), b, 0o644); err != nil {
			scratch.Close()
			return nil, gpuprof.Errorf(nil, "writing the Python hook: %w", err).WithFix("point TMPDIR to a folder that takes files")
		}
	}
	return h, nil
}

// started notes whose program has the hook.
func (h *hook) started(pid int) {
	if h != nil {
		_ = h.scratch.Program(pid) // its environment names the folder as well
	}
}

// environment is env with the hook first on PYTHONPATH. The hook of an outer
// gpuprof run is taken off: two profilers cannot record one process.
func (h *hook) environment(env []string) []string {
	outer := lookup(env, envHook)
	path := h.dir
	if rest := without(lookup(env, "PYTHONPATH"), outer); rest != "" {
		path += string(os.PathListSeparator) + rest
	}
	set := map[string]string{envHook: h.dir, "PYTHONPATH": path}
	// Releases of PyTorch before 2.2 print a line for each stage of a
	// recording on standard error, which is the program's; 2.15 prints its
	// tracepoints there, at the level above errors.
	if lookup(env, "KINETO_LOG_LEVEL") == "" {
		set["KINETO_LOG_LEVEL"] = "6"
	}
	return with(env, set)
}

// tellOuter leaves a line for the gpuprof run around this one.
func tellOuter(env []string) bool {
	dir := lookup(env, envHook)
	if dir == "" {
		return false
	}
	status, err := outside.ReadFound(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	f, err := outside.OpenRegular(string(status), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return false
	}
	_, err = fmt.Fprintf(f, "{\"event\": \"nested\", \"pid\": %d}\n", os.Getpid())
	return errors.Join(err, f.Close()) == nil
}

// lookup is the value of a variable in an environment; the last one counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// with sets variables in a copy of an environment.
func with(env []string, set map[string]string) []string {
	out := make([]string, 0, len(env)+len(set))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if _, replaced := set[name]; !replaced {
			out = append(out, e)
		}
	}
	for name, v := range set {
		out = append(out, name+"="+v)
	}
	return out
}

// without takes one folder off a search path. An empty entry, which means the
// current folder, stays.
func without(path, dir string) string {
	if path == "" || dir == "" {
		return path
	}
	var kept []string
	for _, p := range filepath.SplitList(path) {
		if p != dir {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, string(os.PathListSeparator))
}
