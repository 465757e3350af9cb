//go:build !race

// The tests start processes of Python: the race detector finds nothing in them.

package tuneprogram

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// told holds the counts that testdata/train.py prints about itself after each step.
type told struct {
	Threads   int      `json:"threads"`
	Used      [][2]any `json:"used"`
	Workers   int      `json:"workers"`
	Began     []bool   `json:"began"` // whether the hook had noted the begin of the measured steps
	Collected []bool   `json:"collected"`
	// States has for each step the flags that differ from the program's own.
	States []map[string]bool `json:"states"`
}

// trainCommand is testdata/train.py with the stand-in of PyTorch in a folder of its own, and what it told at last.
func trainCommand(t *testing.T, words []string) (c *Command, read func() told) {
	t.Helper()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", filepath.Join(testdata, "fake"))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	t.Chdir(t.TempDir())
	return &Command{Args: append([]string{"python3", filepath.Join(testdata, "train.py")}, words...)}, func() (said told) {
		if text, err := os.ReadFile("told.json"); err == nil {
			if err := json.Unmarshal(text, &said); err != nil {
				t.Fatal(err)
			}
		}
		return said
	}
}

// train runs testdata/train.py once.
func train(t *testing.T, s Set, p Plan, words ...string) (tune.ProgramRun, told, string) {
	t.Helper()
	c, said := trainCommand(t, words)
	r, err := c.Run(context.Background(), s, p, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return r, said(), dir
}

func setOf(knob, value string, keys map[string]any) Set {
	return Set{{Knob: knob, Value: value, Hook: keys}}
}

// TestPlain: a run without settings is measured, its losses are kept, and no handler of the program runs at its end.
func TestPlain(t *testing.T) {
	r, _, dir := train(t, nil, Plan{2, 5}, "collect=1", "keep=1", "anomaly=1")
	if r.Failed != "" || r.Hook == nil || r.Hook.Steps != 5 || r.Cost <= 0 {
		t.Fatalf("run %+v", r)
	}
	if len(r.Losses) != 7 || r.Losses[0] != "0x1.c000000000000p+2" {
		t.Errorf("losses %v: the first is 0+1+2+3 and 1", r.Losses)
	}
	seen := r.Hook.Seen
	if seen.KeepGrads == 0 || seen.Anomaly == 0 || len(seen.Loaders) != 1 || len(seen.Optimizers) != 1 || seen.Optimizers[0].Foreach != false {
		t.Errorf("seen %+v", seen)
	}
	if sites := seen.Calls["gc.collect"]; len(sites) != 1 {
		t.Errorf("calls of gc.collect at %v", sites)
	}
	if _, err := os.Stat(filepath.Join(dir, "final.pt")); err == nil {
		t.Error("the program's finally wrote final.pt")
	}
	if len(r.Took) != 0 || r.Hook.Batch != 4 || !slices.Equal(seen.Modules, []string{"Net"}) {
		t.Errorf("took %v, batch %d, modules %v", r.Took, r.Hook.Batch, seen.Modules)
	}
}

// TestSettingsTakeHold: each setting changes what the program does, and says so.
func TestSettingsTakeHold(t *testing.T) {
	for _, c := range []struct {
		name  string
		keys  map[string]any
		words string
		took  string
		holds func(told) bool
	}{
		{"workers", map[string]any{"num_workers": 2}, "", "loader", func(s told) bool { return s.Workers == 2 }},
		{"threads", map[string]any{"threads": 1}, "threads=16", "threads", func(s told) bool { return s.Threads == 1 }},
		{"fused", map[string]any{"fused": true}, "", "fused", func(s told) bool { return s.Used[0] == [2]any{false, true} }},
		{"foreach", map[string]any{"foreach": true}, "", "foreach", func(s told) bool { return s.Used[0] == [2]any{true, false} }},
		{"collect", map[string]any{"remove": []string{"gc.collect"}}, "collect=1", "remove gc.collect", func(s told) bool { return !s.Collected[0] }},
		{"anomaly", map[string]any{"anomaly_off": true}, "anomaly=1", "anomaly_off", nil},
		{"deterministic", map[string]any{"deterministic_off": true}, "deterministic=1", "deterministic_off", nil},
		{"gradients", map[string]any{"set_to_none": true}, "keep=1", "set_to_none", nil},
		{"denormal", map[string]any{"flush_denormal": true}, "", "flush_denormal", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, said, _ := train(t, setOf(c.name, "on", c.keys), Plan{1, 3}, strings.Fields(c.words)...)
			if r.Failed != "" || r.Took[c.took] == 0 {
				t.Fatalf("failed %q, took %v", r.Failed, r.Took)
			}
			if c.holds != nil && !c.holds(said) {
				t.Errorf("the program saw %+v", said)
			}
		})
	}
}

// TestRefused: a loader that does not take a setting keeps its own, with the reason.
func TestRefused(t *testing.T) {
	r, said, _ := train(t, setOf("num_workers", "2", map[string]any{"num_workers": 2}), Plan{1, 3}, "cannot_be_sent=1")
	if r.Failed != "" || said.Workers != 0 || !strings.Contains(r.Hook.Refused["loader"], "cannot pickle") {
		t.Errorf("failed %q, workers %d, refused %v", r.Failed, said.Workers, r.Hook.Refused)
	}
}

// TestEnds: a program with fewer steps comes to its own end, and one that raises has failed with its words.
func TestEnds(t *testing.T) {
	t.Run("short", func(t *testing.T) {
		r, _, dir := train(t, nil, Plan{2, 50}, "samples=40")
		if r.Failed != "" || !r.Hook.Ended || r.Hook.Steps != 8 {
			t.Errorf("failed %q, %+v", r.Failed, r.Hook)
		}
		if _, err := os.Stat(filepath.Join(dir, "final.pt")); err != nil {
			t.Error("a program that ends by itself runs its finally:", err)
		}
	})
	t.Run("raises", func(t *testing.T) {
		if r, _, _ := train(t, nil, Plan{2, 50}, "fail=1"); !strings.Contains(r.Failed, "the loss is not finite") {
			t.Errorf("failed %q", r.Failed)
		}
	})
}

// TestWholeProgram: a search of the stand-in's program finds the call that costs, in a copy of the folder, and leaves
// the folder as it is. Its clock counts readings, so that no time decides what runs.
func TestWholeProgram(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", filepath.Join(testdata, "fake"))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	dir := t.TempDir()
	t.Chdir(dir)
	text, err := os.ReadFile(filepath.Join(testdata, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("train.py", text, 0o644); err != nil {
		t.Fatal(err)
	}
	folder, err := CopyFolder(dir, filepath.Join(t.TempDir(), "work"), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"python3", "train.py", "collect=1"}
	now := time.Unix(0, 0)
	r, err := Run(context.Background(), Options{
		Runner: &Command{Args: args, Folder: folder}, Command: args, Steps: 6, MaxError: 0.01, Budget: time.Hour, CPUs: 2, Copied: true, Only: []string{"gc.collect"},
		Getenv: os.Getenv, Now: func() time.Time { now = now.Add(time.Second); return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Effects) != 1 || r.Effects[0].Losses == nil || r.Effects[0].Losses.Verdict != tune.SameBits {
		t.Fatalf("effects %+v", r.Effects)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v) and had train.py alone", entries, err)
	}
}

// TestStopped: a run that has not ended at its limit is stopped with what it started. Its lowest cost is the time of the
// whole run, or of each measured step once the hook has seen the first of them.
func TestStopped(t *testing.T) {
	const limit = 500 * time.Millisecond
	t.Run("whole", func(t *testing.T) {
		t.Chdir(t.TempDir())
		c := Command{Args: []string{"sh", "-c", "sleep 600 & echo $! >pid; wait"}, Whole: true}
		r, err := c.Run(context.Background(), nil, Plan{}, limit)
		if err != nil || r.Stopped != tune.StopRun || r.Failed != "" || r.Cost != 0 || r.AtLeast <= 0 || r.AtLeast > limit.Seconds() {
			t.Fatalf("run %+v (%v)", r, err)
		}
		text, err := os.ReadFile("pid")
		if err != nil {
			t.Fatal(err)
		}
		if state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("its child is left: %s", state)
		}
	})
	t.Run("steps", func(t *testing.T) {
		at, out := time.Unix(1_700_000_000, 0), filepath.Join(t.TempDir(), "result.json")
		r := tune.ProgramRun{Plan: [2]int{4, 8}}
		if (&Command{}).stopRun(&r, at, out); r.Stopped != tune.StopRun || r.AtLeast != 0 {
			t.Errorf("stopped before the first measured step: %+v", r)
		}
		if err := os.WriteFile(out+beganSuffix, []byte("1699999996.5"), 0o600); err != nil {
			t.Fatal(err)
		}
		if (&Command{}).stopRun(&r, at, out); r.AtLeast != 3.5/8 {
			t.Errorf("at least %g s per step, want 3.5 s for 8 steps", r.AtLeast)
		}
	})
}

// TestBegan: the hook notes the begin of the measured steps, and not earlier.
func TestBegan(t *testing.T) {
	if _, said, _ := train(t, nil, Plan{3, 5}); !slices.Equal(said.Began, []bool{false, false, true, true, true, true, true}) {
		t.Errorf("after each step: %v", said.Began)
	}
}

// TestGPUsOfAProgram: the hook reports the UUIDs of the GPUs on which the process had memory, none before CUDA is
// initialized, and "" for a GPU whose UUID this PyTorch does not have.
func TestGPUsOfAProgram(t *testing.T) {
	const program = `import ast, json, types
tree = ast.parse(open("hook/gpuprof_hook.py").read())
tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "gpus"]
exec(compile(tree, "hook", "exec"))
def torch(initialized, devices):
    return types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: initialized, device_count=lambda: len(devices),
        max_memory_allocated=lambda i: devices[i][0], get_device_properties=lambda i: types.SimpleNamespace(**devices[i][1])))
a, b = {"uuid": "00000000-aaaa"}, {"uuid": "00000000-bbbb"}
print(json.dumps([gpus(t) for t in (torch(True, [(0, a), (5, b)]), torch(True, [(1, a), (5, b)]), torch(True, [(5, {})]),
    torch(False, [(5, a)]), types.SimpleNamespace())]))`
	out, err := exec.Command("python3", "-c", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	const want = `[["00000000-bbbb"], ["00000000-aaaa", "00000000-bbbb"], [""], [], []]`
	if got := strings.TrimSpace(string(out)); got != want {
		t.Errorf("the GPUs are %s, want %s", got, want)
	}
}
