package tuneprogram

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

func TestParseTry(t *testing.T) {
	command := []string{"python", "train.py", "{batch}", "--out={dir}"}
	for _, c := range []struct {
		text   string
		values []string
		fails  string
	}{
		{"OMP_NUM_THREADS=1,2", []string{"1", "2"}, ""},
		{"batch=--batch-size {32,64}", []string{"--batch-size 32", "--batch-size 64"}, ""},
		{"dir=a,b", []string{"a", "b"}, ""},
		{"batch=--batch-size {32,64", nil, "brace"},
		{"other=--x {1,2}", nil, "no {other}"},
		{"batch=--batch-size 32", nil, "nothing to compare"},
		{"=1", nil, "no name"},
		{"NAME", nil, "no values"},
	} {
		got, err := ParseTry(c.text, command)
		if c.fails == "" && (err != nil || !slices.Equal(got.Values, c.values)) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v, %v", c.text, got.Values, err)
		}
	}
	got := fillPlaceholders(command, map[string]string{"batch": "--batch-size 64", "dir": "a b"})
	if want := []string{"python", "train.py", "--batch-size", "64", "--out=a b"}; !slices.Equal(got, want) {
		t.Errorf("filled %q, want %q", got, want)
	}
}

// TestLosses: what may change the numbers, and by how much.
func TestLosses(t *testing.T) {
	run := func(losses ...string) tune.ProgramRun { return tune.ProgramRun{Losses: losses} }
	plain := run("0x1p+00", "0x1p-01")
	exact := tune.LossCheck{Verdict: tune.SameBits}
	for _, c := range []struct {
		name    string
		tuned   tune.ProgramRun
		own     tune.LossCheck
		changes Change
		want    tune.Same
	}{
		{"same", run("0x1p+00", "0x1p-01"), exact, Exact, tune.SameBits},
		{"a rounding where none may be", run("0x1p+00", "0x1.00001p-01"), exact, Exact, tune.Changed},
		{"a rounding", run("0x1p+00", "0x1.00001p-01"), exact, Rounding, tune.Within},
		{"too much", run("0x1p+00", "0x1.1p-01"), exact, Rounding, tune.Changed},
		{"as much as its own runs", run("0x1p+00", "0x1.00001p-01"), tune.LossCheck{Verdict: tune.Within, Deviation: 1e-5}, Exact, tune.Within},
		{"its own runs differ", run("0x1p+00", "0x1p+03"), tune.LossCheck{Verdict: tune.Incomparable, Deviation: 2}, Exact, tune.Incomparable},
		{"not finite", run("0x1p+00", "nan"), exact, Rounding, tune.Changed},
		{"infinite", run("0x1p+00", "inf"), exact, Rounding, tune.Changed},
		{"none", run(), exact, Exact, tune.NotChecked},
	} {
		if got := checkLosses(plain, c.tuned, c.own, c.changes, 0.01); got.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
	if got := checkRepeats([]tune.ProgramRun{plain, run("0x1.8p+00", "0x1p-01")}, 0.01); got.Verdict != tune.Incomparable || got.Deviation != 0.5 {
		t.Errorf("an unseeded program: %+v", got)
	}
}

// TestOffers: which settings make sense for what a program does.
func TestOffers(t *testing.T) {
	two, off := 2, false
	for _, c := range []struct {
		name string
		h    tune.HookReport
		want string // the settings that are offered
	}{
		{"nothing", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true}}, ""},
		{"loader", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Loaders: []tune.Loader{{}}}}, "num_workers=2 num_workers=4"},
		{"stream", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Loaders: []tune.Loader{{Stream: true}}}}, ""},
		{"epochs", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Loaders: []tune.Loader{{Workers: &two, Persistent: &off}}, Epochs: [][2]int{{0, 0}, {0, 10}}}},
			"num_workers=4 persistent_workers=True prefetch_factor=8"},
		{"threads", tune.HookReport{Seen: tune.Observed{Threads: 16, MKLDNN: true}}, "threads=1 threads=4"},
		{"optimizer", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Optimizers: []tune.Optimizer{{Foreach: false, Tensors: 9}}}}, "foreach=True fused=True"},
		{"no such optimizer", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Optimizers: []tune.Optimizer{{Foreach: "absent", Fused: "absent", Tensors: 9}}}}, ""},
		{"sparse", tune.HookReport{Seen: tune.Observed{Threads: 1, MKLDNN: true, Optimizers: []tune.Optimizer{{Tensors: 9, Sparse: true}}}}, "foreach=True"},
		{"faults", tune.HookReport{Seen: tune.Observed{Threads: 1, Anomaly: 3, KeepGrads: 3, Deterministic: true, Subnormal: 0.5, Modules: []string{"Net"},
			Calls: map[string]map[string]int{"gc.collect": {"train.py:9": 3}}}},
			"anomaly_detection=off compile=default deterministic=off flush_denormal=on gc.collect=removed mkldnn=on set_to_none=True"},
		{"gpu", tune.HookReport{Device: "cuda", Seen: tune.Observed{Threads: 16, Images: true, Modules: []string{"Net"}, Loaders: []tune.Loader{{Workers: &two}},
			Calls: map[string]map[string]int{"torch.cuda.synchronize": {"a.py:1": 1}}}},
			"autocast=bfloat16 channels_last=on compile=default cudnn.benchmark=on num_workers=4 pin_memory=True prefetch_factor=8 tf32=on torch.cuda.synchronize=removed"},
	} {
		var got []string
		for _, o := range listOffers(&c.h, 4) {
			if o.without == "" {
				got = append(got, o.Name())
				if o.Line == "" {
					t.Errorf("%s: %s has no line of code", c.name, o.Name())
				}
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: offered %s, want %s", c.name, strings.Join(got, " "), c.want)
		}
	}
}

func TestSet(t *testing.T) {
	s := Set{{Knob: "a", Value: "1", Hook: map[string]any{"remove": []string{"x"}}}, {Knob: "b", Value: "2", Hook: map[string]any{"remove": []string{"y"}}, Env: []string{"E=1"}, Change: Rounding}}
	if got := s.hookSettings()["remove"]; !slices.Equal(got.([]string), []string{"x", "y"}) {
		t.Errorf("both calls are removed: %v", got)
	}
	if s.Key() != "a=1 b=2" || s.mostChange() != Rounding || len(s.addSetting(Setting{Knob: "a", Value: "3"})) != 2 {
		t.Errorf("key %s", s.Key())
	}
	// PyTorch takes one implementation of an optimizer.
	if s := (Set{{Knob: "fused", Value: "True"}}).addSetting(Setting{Knob: "foreach", Value: "True"}); s.Key() != "foreach=True" {
		t.Errorf("fused and foreach together: %s", s.Key())
	}
}

// TestFolder: a run finds what the first one found, whatever the runs before it did, and the original stays.
func TestFolder(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	write := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(from, "train.py", "code")
	write(from, "data/a.bin", "aaaa")
	write(from, "data/deep/b.bin", "bb")
	write(from, "big/c.bin", strings.Repeat("c", 1000))
	write(from, "env/pyvenv.cfg", "home")
	if err := os.Symlink("data/a.bin", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	for link, why := range map[string]string{"bag": `it is not there (did you mean "big"?); ` + from + " has ", "sub/none": "it is not there", "../x": "it is not inside", from: "it is not inside", ".": "it is not inside"} {
		if _, err := CopyFolder(from, filepath.Join(t.TempDir(), "none"), 2000, []string{link}); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), why) {
			t.Errorf("--link %s: %v", link, err)
		}
	}
	if _, err := CopyFolder(from, filepath.Join(t.TempDir(), "small"), 100, nil); err == nil || !strings.Contains(err.Error(), "it holds more than") {
		t.Errorf("above the limit: %v", err)
	}
	f, err := CopyFolder(from, to, 100, []string{"big"})
	if err != nil {
		t.Fatal(err)
	}
	want := content(t, to)
	for _, name := range []string{"big", "env"} {
		if target, err := os.Readlink(filepath.Join(to, name)); err != nil || target != filepath.Join(from, name) {
			t.Errorf("%s leads to %q (%v)", name, target, err)
		}
	}
	inside, err := CopyFolder(from, filepath.Join(from, "temp", "work"), 2000, nil)
	if err != nil || inside.entries["temp"] != (stamp{}) {
		t.Errorf("the copy lies in the folder: %v, %v", inside, err)
	}
	if err := os.RemoveAll(filepath.Join(from, "temp")); err != nil {
		t.Fatal(err)
	}
	write(to, "train.py", "other code")
	write(to, "out/checkpoint.pt", "new")
	if err := os.RemoveAll(filepath.Join(to, "data")); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, to); !maps.Equal(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}
	write(from, "train.py", "edited meanwhile")
	write(to, "train.py", "x")
	if err := f.Restore(); err == nil || !strings.Contains(err.Error(), "train.py was changed") {
		t.Errorf("the original was edited: %v", err)
	}
}

// content is what the files of a folder hold, and where its links lead.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&os.ModeSymlink != 0 {
			out[name], err = os.Readlink(path)
			return err
		}
		text, err := os.ReadFile(path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
