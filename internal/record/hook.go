package record

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
)

//go:embed hook/*.py
var hookFiles embed.FS

// WriteHook writes a hook into a folder: its modules (hook/*.py), config.json, and this package's sitecustomize.py.
// This script waits for `import torch`, then loads gpuprof_hook.py from its own folder. It appends events to the file
// status.
func WriteHook(dir string, modules embed.FS, config any, status string) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	loader, err := hookFiles.ReadFile("hook/sitecustomize.py")
	if err != nil {
		return err
	}
	files := map[string][]byte{"config.json": text, "sitecustomize.py": loader, "status": []byte(status)}
	entries, err := modules.ReadDir("hook")
	for _, m := range entries {
		if err == nil {
			files[m.Name()], err = modules.ReadFile("hook/" + m.Name())
		}
	}
	for name, text := range files {
		if err == nil {
			err = outside.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
	}
	return err
}

// statusName is the hook's event file, one JSON object per line.
const statusName = "hook.jsonl"

// envHook names the variable with the hook's folder, by which a nested gpuprof run finds and replaces the outer run's
// hook.
const envHook = "GPUPROF_HOOK"

// hookConfig is the content of config.json, which the hook reads.
type hookConfig struct {
	Out          string  `json:"out"`
	Status       string  `json:"status"`
	Steps        int     `json:"steps"`
	Skip         int     `json:"skip"`
	SkipExact    bool    `json:"skip_exact"`
	Shapes       bool    `json:"shapes"`
	Stacks       bool    `json:"stacks"`
	Memory       bool    `json:"memory"`
	Plain        bool    `json:"plain"` // sample a program without torch
	WindowS      float64 `json:"window_s"`
	WindowAfterS float64 `json:"window_after_s"`
	LongestS     float64 `json:"longest_s"`
}

// hook is the Python hook on disk for one run.
type hook struct {
	scratch *child.Scratch
	dir     string // the folder on PYTHONPATH
	status  string
}

// writeHook writes the hook into a new temporary folder. The folder is kept until the program and its children have
// ended, since they import from it.
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
	err = WriteHook(h.dir, hookFiles, hookConfig{
		Out: out, Status: h.status, Steps: o.Steps, Skip: o.Skip, SkipExact: o.SkipExact, Shapes: o.Shapes, Stacks: o.Stacks, Memory: o.Memory, Plain: !o.Memory,
		WindowS: o.Window.Seconds(), WindowAfterS: o.WindowAfter.Seconds(), LongestS: o.longestRecording().Seconds(),
	}, h.status)
	if err != nil {
		scratch.Close()
		return nil, gpuprof.Errorf(nil, "writing the Python hook: %w", err).WithFix("point TMPDIR to a folder that takes files")
	}
	return h, nil
}

// noteProgram registers the process that uses the hook's folder, which is removed after the process has ended.
func (h *hook) noteProgram(pid int) {
	if h != nil {
		_ = h.scratch.Program(pid) // the process's environment names the folder as well
	}
}

// environWithHook returns env with the hook first on PYTHONPATH, and without the hook of an outer gpuprof run: two
// profilers cannot record one process.
func (h *hook) environWithHook(env []string) []string {
	outer := lookup(env, envHook)
	path := h.dir
	if rest := removeFromPath(lookup(env, "PYTHONPATH"), outer); rest != "" {
		path += string(os.PathListSeparator) + rest
	}
	set := map[string]string{envHook: h.dir, "PYTHONPATH": path}
	// Level 6 keeps Kineto from the program's standard error: PyTorch before 2.2 prints a line per recording stage, and
	// 2.15 prints tracepoints at the level above errors.
	if lookup(env, "KINETO_LOG_LEVEL") == "" {
		set["KINETO_LOG_LEVEL"] = "6"
	}
	return setEnviron(env, set)
}

// notifyOuterRun appends a "nested" event to the hook file of an outer gpuprof run, and reports whether there is one.
func notifyOuterRun(env []string) bool {
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

// lookup returns a variable's value in an environment; the last assignment counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

func setEnviron(env []string, set map[string]string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := set[name]
		return replaced
	})
	for name, v := range set {
		out = append(out, name+"="+v)
	}
	return out
}

// removeFromPath removes a folder from a search path. It keeps empty entries, which mean the current folder.
func removeFromPath(path, dir string) string {
	if path == "" || dir == "" {
		return path
	}
	kept := slices.DeleteFunc(filepath.SplitList(path), func(p string) bool { return p == dir })
	return strings.Join(kept, string(os.PathListSeparator))
}
