package baseline

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// run is a run of n processes measured on a given day.
func run(n, samples, days int) *gpuprof.Run {
	series := func(v float64) *gpuprof.Series {
		s := &gpuprof.Series{Unit: "s"}
		for p := range n {
			var one []float64
			for i := range samples {
				one = append(one, v*(1+0.001*float64(p)+0.0001*float64(i*7%13)))
			}
			s.Runs = append(s.Runs, one)
		}
		s.Median = v
		return s
	}
	return &gpuprof.Run{
		Head: document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof", Version: "v1.2.3", Commit: "abc"}), Status: gpuprof.Complete,
		Started: day.AddDate(0, 0, days), Workload: "e3nn", Preset: "small", Mode: gpuprof.Steady,
		Device: gpuprof.Env{Kind: "host", Name: "Example CPU (8 cores)", CPU: "Example CPU", OS: "linux", DeviceInfo: map[string]string{"driver": "1"}},
		Knobs:  gpuprof.Settings{"mul": "32", "batch": "64"}, ModelKnobs: []string{"mul"},
		Step: series(0.01), Stages: []gpuprof.StageResult{{Name: "gemm", Parent: "step", Exposed: series(0.008)}, {Name: "gap", Parent: "step", Exposed: series(0.002)}},
		Throughput: &gpuprof.Throughput{Unit: "probes/s", Series: series(6400)}, PeakMemory: 1 << 20, Counters: map[string]float64{"sync_points": 1, "launches": 40},
		Checks: []gpuprof.Check{{Stage: "gemm", Pass: true}},
	}
}

func with(r *gpuprof.Run, change func(*gpuprof.Run)) *gpuprof.Run { change(r); return r }

var from = Provenance{Now: day, Machine: "ci-7", Command: "gpuprof run e3nn --runs 6", Tool: gpuprof.Tool{Name: "gpuprof", Version: "v1"}}

func add(t testing.TB, s *Store, keep int, runs ...*gpuprof.Run) []Added {
	t.Helper()
	out, _, err := s.Add(runs, from, keep)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAddAndFind(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "new"))
	got := add(t, s, 0, run(6, 30, 0), run(6, 30, 1))
	want := []Added{{Name: "example-cpu-8-cores/e3nn-small", Path: filepath.Join(s.Path(), "example-cpu-8-cores", "e3nn-small.json"), Sessions: 2}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	b, err := s.Find(FingerprintOf(run(6, 30, 9)))
	if err != nil {
		t.Fatal(err)
	}
	first := b.Sessions[0]
	if first.Machine != "ci-7" || first.Command != from.Command || first.Tool.Commit != "abc" || first.Processes != 6 || first.Samples != 180 || !first.Started.Equal(day) || b.Tool.Version != "v1" {
		t.Errorf("%+v", first)
	}
	rs := b.Results()
	if len(rs) != 2 || rs[1].Metric("step/gemm") == nil || !rs[1].Metric("sync_points").Exact || !rs[1].Metric("throughput").HigherIsBetter || !rs[1].Knobs["mul"].Model || rs[1].Total != "step" {
		t.Errorf("%+v", rs)
	}
	// The baseline is what FromRun makes of the run, but for the samples left out.
	direct, err := compare.FromRun(run(6, 30, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range direct.Metrics {
		kept := rs[0].Metric(m.Name)
		if kept == nil || kept.Metric != m.Metric || len(kept.Runs) != len(m.Runs) {
			t.Fatalf("%s: %+v", m.Name, kept)
		}
		for i := range m.Runs {
			if a, b := stats.Median(kept.Runs[i]), stats.Median(m.Runs[i]); math.Abs(a-b) > 1e-9*math.Abs(b) {
				t.Errorf("%s, process %d: the median was %v and is %v", m.Name, i, b, a)
			}
		}
	}
	if d := cmp.Diff(direct.Env, rs[0].Env) + cmp.Diff(direct.Facts, rs[0].Facts) + cmp.Diff(direct.Code, rs[0].Code) + cmp.Diff(direct.Knobs, rs[0].Knobs); d != "" {
		t.Error(d)
	}
}

func TestSessionsArePrunedAndSorted(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 3, run(6, 10, 5), run(6, 10, 1))
	got := add(t, s, 3, run(6, 10, 3), run(6, 10, 9))
	if got[0].Sessions != 3 || got[0].Dropped != 1 {
		t.Errorf("%+v", got)
	}
	b, err := s.Show("e3nn-small")
	if err != nil {
		t.Fatal(err)
	}
	var days []int
	for _, x := range b.Sessions {
		days = append(days, int(x.Started.Sub(day).Hours()/24))
	}
	if !slices.Equal(days, []int{3, 5, 9}) {
		t.Errorf("sessions of days %v", days)
	}
	for range 30 {
		add(t, s, 0, with(run(6, 10, 0), func(r *gpuprof.Run) {
			r.Started = day.Add(time.Duration(len(b.Sessions)+10) * time.Hour)
			b.Sessions = append(b.Sessions, Session{})
		}))
	}
	if b, _ = s.Show("e3nn-small"); len(b.Sessions) != DefaultKeep {
		t.Errorf("%d sessions are kept", len(b.Sessions))
	}
}

func TestRefused(t *testing.T) {
	s := Open(t.TempDir())
	good := run(6, 10, 50)
	for want, r := range map[string]*gpuprof.Run{
		"the run is partial (stopped by the user)": with(run(6, 10, 0), func(r *gpuprof.Run) { r.Status, r.Reason = gpuprof.Partial, "stopped by the user" }),
		"the run is partial (it was stopped)":      with(run(6, 10, 0), func(r *gpuprof.Run) { r.Status = gpuprof.Partial }),
		"the run is invalid (a check failed)":      with(run(6, 10, 0), func(r *gpuprof.Run) { r.Checks[0].Pass = false }),
		"the run is invalid (bad)":                 with(run(6, 10, 0), func(r *gpuprof.Run) { r.Status, r.Reason = gpuprof.Invalid, "bad" }),
		"the device is simulated":                  with(run(6, 10, 0), func(r *gpuprof.Run) { r.Device.DeviceInfo["simulated"] = "true" }),
		`the run has the status ""`:                with(run(6, 10, 0), func(r *gpuprof.Run) { r.Status = "" }),
		"the run has no step times":                with(run(6, 10, 0), func(r *gpuprof.Run) { r.Step = nil }),
		"does not name its workload":               with(run(6, 10, 0), func(r *gpuprof.Run) { r.Workload = "" }),
		"there is no run":                          nil,
	} {
		_, _, err := s.Add([]*gpuprof.Run{good, r}, from, 0)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if all, broken := s.List(); len(all) != 0 || len(broken) != 0 {
		t.Errorf("something was written: %v %v", all, broken)
	}
	add(t, s, 0, good)
	elsewhere := from
	elsewhere.Machine = "another name"
	for _, p := range []Provenance{from, elsewhere} {
		if _, _, err := s.Add([]*gpuprof.Run{good}, p, 0); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("the same session twice, of %s: %v", p.Machine, err)
		}
	}
	if _, _, err := s.Add([]*gpuprof.Run{run(6, 10, 1)}, from, -1); !errors.Is(err, gpuprof.ErrUsage) {
		t.Error(err)
	}
	if _, _, err := s.Add(nil, from, 0); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}

func TestFewProcesses(t *testing.T) {
	_, ws, err := Open(t.TempDir()).Add([]*gpuprof.Run{run(1, 30, 0), run(6, 30, 1)}, from, 0)
	if err != nil || len(ws) != 1 || ws[0].Code != "few-processes" || !strings.Contains(ws[0].Text, "has 1 of the 6 processes that") {
		t.Errorf("%v %v", ws, err)
	}
}

// Sessions that differ in what a gate wants to agree spoil the baseline, and the
// warning is right about it.
func TestMixedSessions(t *testing.T) {
	batch := func(r *gpuprof.Run) { r.Knobs["batch"] = "8" }
	driver := func(r *gpuprof.Run) { r.Device.DeviceInfo["driver"] = "2" }
	kernel := func(r *gpuprof.Run) { r.Device.Kernel = "6.1" }
	for name, c := range map[string]struct {
		change func(*gpuprof.Run)
		want   string
	}{
		"knob": {batch, "differ in batch,"}, "driver": {driver, "differ in driver,"}, "what may differ": {kernel, ""},
		"both": {func(r *gpuprof.Run) { batch(r); driver(r) }, "differ in batch, driver,"},
	} {
		s := Open(t.TempDir())
		add(t, s, 0, run(6, 30, 0))
		_, ws, err := s.Add([]*gpuprof.Run{with(run(6, 30, 1), c.change)}, from, 0)
		if err != nil || len(ws) > 0 != (c.want != "") || c.want != "" && (ws[0].Code != "mixed-sessions" || !strings.Contains(ws[0].Text, c.want)) {
			t.Errorf("%s: %v %v", name, ws, err)
		}
		b, err := s.Find(FingerprintOf(run(6, 30, 2)))
		if err != nil {
			t.Fatal(err)
		}
		now, err := compare.FromRun(run(6, 30, 2))
		if err != nil {
			t.Fatal(err)
		}
		judged, err := compare.CompareStored(b.Results(), now, compare.Options{Judge: true})
		if err != nil || (judged.Verdict == compare.NotComparable) != (c.want != "") {
			t.Errorf("%s: %v %v", name, judged, err)
		}
	}
}

// TestFingerprints: what must not be compared is not found, and does not land
// in one file.
func TestFingerprints(t *testing.T) {
	s := Open(t.TempDir())
	others := map[string]*gpuprof.Run{
		`knob mul is "32" there and "64" here`:  with(run(6, 10, 1), func(r *gpuprof.Run) { r.Knobs["mul"] = "64" }),
		`mode is "steady" there and "hot" here`: with(run(6, 10, 2), func(r *gpuprof.Run) { r.Mode = gpuprof.Hot }),
		`preset is "small" there`:               with(run(6, 10, 3), func(r *gpuprof.Run) { r.Preset = "deepaw" }),
		`device is "Example CPU (8 cores)"`:     with(run(6, 10, 4), func(r *gpuprof.Run) { r.Device.Name = "Other CPU" }),
		`knob lmax is "" there and "2" here`:    with(run(6, 10, 5), func(r *gpuprof.Run) { r.Knobs["lmax"] = "2"; r.ModelKnobs = append(r.ModelKnobs, "lmax") }),
	}
	add(t, s, 0, run(6, 10, 0))
	for want, r := range others {
		if _, err := s.Find(FingerprintOf(r)); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A tuning knob and the driver are compare's business.
	tuned := with(run(6, 10, 6), func(r *gpuprof.Run) { r.Knobs["batch"] = "1"; r.Device.DeviceInfo["driver"] = "2" })
	if _, err := s.Find(FingerprintOf(tuned)); err != nil {
		t.Error(err)
	}
	var all []*gpuprof.Run
	for _, r := range others {
		all = append(all, r)
	}
	add(t, s, 0, all...)
	bs, broken := s.List()
	if len(bs) != 6 || len(broken) != 0 {
		t.Fatalf("%d files, %v", len(bs), broken)
	}
	for _, r := range others {
		if b, err := s.Find(FingerprintOf(r)); err != nil || len(b.Sessions) != 1 {
			t.Errorf("%v: %v", FingerprintOf(r), err)
		}
	}
	_, err := s.Find(FingerprintOf(with(run(6, 10, 0), func(r *gpuprof.Run) { r.Workload = "gruflow" })))
	if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "none of this workload") {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")).Find(Fingerprint{Workload: "e3nn"}); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "holds none; add one") {
		t.Error(err)
	}
}

func TestShowAndRemove(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 0, run(6, 10, 0), with(run(6, 10, 0), func(r *gpuprof.Run) { r.Device.Name = "GPU/../evil\x00 X" }), with(run(6, 10, 0), func(r *gpuprof.Run) { r.Preset = "big" }))
	for name, want := range map[string]string{"example-cpu-8-cores/e3nn-small": "", "example-cpu-8-cores/e3nn-small.json": "", "e3nn-big": "", "e3nn-small": "2 devices have it", "e3nn-bgi": `did you mean "example-cpu-8-cores/e3nn-big"`, "../x": "no such one"} {
		b, err := s.Show(name)
		switch {
		case want == "" && (err != nil || b.Fingerprint.Workload != "e3nn"):
			t.Errorf("%s: %v", name, err)
		case want != "" && (!errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want)):
			if name != "e3nn-bgi" || !strings.Contains(err.Error(), "no such one") {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	outside := filepath.Join(filepath.Dir(s.Path()), "x.json")
	beside := s.Path() + ".json" // where "a/.." of the store leads
	for _, path := range []string{outside, beside} {
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"../x", "a/../../x", "a/..", "", "/", outside, "nothing"} {
		if _, err := s.Remove(name); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{outside, beside} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s, outside the store, was removed", path)
		}
	}
	file, err := s.Remove("gpu-evil-x/e3nn-small")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); err == nil {
		t.Error("an empty folder stays")
	}
	if _, err := s.Remove("e3nn-big"); err != nil {
		t.Error(err)
	}
	if bs, _ := s.List(); len(bs) != 1 {
		t.Errorf("%d are left", len(bs))
	}
}

// TestBrokenFiles: a file that cannot be read is named, and hides no other.
func TestBrokenFiles(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 0, run(6, 10, 0))
	good, err := os.ReadFile(filepath.Join(s.Path(), "example-cpu-8-cores", "e3nn-small.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.Path(), "zzz")
	for name, c := range map[string]struct{ text, want string }{
		"future":  {strings.Replace(string(good), `"schema_version": "1.`, `"schema_version": "2.`, 1), "is newer than this gpuprof's"},
		"cut":     {string(good[:len(good)/2]), "unexpected end"},
		"empty":   {"", "the file is empty"},
		"other":   {`{"schema_version":"1.0.0","workload":"e3nn"}`, "it is a run"},
		"no-kind": {`{}`, "was not written by gpuprof history baseline add"},
		"bare":    {`{"schema_version":"1.0.0","kind":"baseline","sessions":[]}`, "holds no session"},
		"hollow":  {`{"schema_version":"1.0.0","kind":"baseline","sessions":[{}]}`, "session 1 holds no metric"},
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name+".json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, broken := s.List()
		if len(all) != 1 || len(broken) != 1 || !errors.Is(broken[0], gpuprof.ErrInput) || !strings.Contains(broken[0].Error(), c.want) || !strings.Contains(broken[0].Error(), path) {
			t.Errorf("%s: %d and %v", name, len(all), broken)
		}
		if _, err := s.Show("zzz/" + name); !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Remove("zzz/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Adding to a file that cannot be read does not replace it.
	path := filepath.Join(s.Path(), "example-cpu-8-cores", "e3nn-small.json")
	future := bytes.Replace(good, []byte(`"schema_version": "1.`), []byte(`"schema_version": "2.`), 1)
	if err := os.WriteFile(path, future, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Add([]*gpuprof.Run{run(6, 10, 4)}, from, 0); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
	if _, err := s.Find(FingerprintOf(run(6, 10, 4))); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("a broken file is passed over in silence: %v", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, future) {
		t.Error("the file was replaced")
	}
	if _, err := Read(filepath.Join(dir, "missing.json")); !errors.Is(err, gpuprof.ErrUsage) {
		t.Error(err)
	}
}

func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(file).Add([]*gpuprof.Run{run(6, 10, 0)}, from, 0); !errors.Is(err, gpuprof.ErrUsage) {
		t.Error(err)
	}
}

// TestNothingIsLostToAnotherProgram: a file that changed after it was read is
// not overwritten, and no temporary file stays behind.
func TestNothingIsLostToAnotherProgram(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 0, run(6, 10, 0))
	sessions, err := newSessions([]*gpuprof.Run{run(6, 10, 1)}, from)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.planChanges(sessions, 20)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, 0, run(6, 10, 2))
	if err := s.write(plan[0]); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Join(s.Path(), "example-cpu-8-cores"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
	if b, _ := s.Show("e3nn-small"); len(b.Sessions) != 2 {
		t.Errorf("%d sessions", len(b.Sessions))
	}
}

// TestSize: a million samples take no more room than a hundred.
func TestSize(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 0, run(6, 170_000, 0))
	info, err := os.Stat(filepath.Join(s.Path(), "example-cpu-8-cores", "e3nn-small.json"))
	if err != nil || info.Size() > 8<<10 {
		t.Errorf("%d bytes for four series, %v", info.Size(), err)
	}
}

// TestLayout: one line a session, for version control.
func TestLayout(t *testing.T) {
	s := Open(t.TempDir())
	add(t, s, 0, run(6, 10, 0), run(6, 10, 1), run(6, 10, 2))
	path := filepath.Join(s.Path(), "example-cpu-8-cores", "e3nn-small.json")
	before, _ := os.ReadFile(path)
	add(t, s, 0, run(6, 10, 3))
	after, _ := os.ReadFile(path)
	var kept, changed int
	for l := range strings.Lines(string(before)) {
		if strings.Contains(l, `"started"`) {
			if strings.Contains(string(after), strings.TrimRight(l, ",\n")) {
				kept++
			} else {
				changed++
			}
		}
	}
	if kept != 3 || changed != 0 || !json.Valid(after) {
		t.Errorf("%d lines stay and %d change", kept, changed)
	}
}

func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Float64Range(1e-9, 1e3), 1, 300).Draw(t, "samples")
		out := reduceSamples(in)
		if len(out) > keepSamples || len(out) > len(in) {
			t.Fatalf("%d of %d samples", len(out), len(in))
		}
		a, b := stats.Median(slices.Clone(in)), stats.Median(slices.Clone(out))
		if math.Abs(a-b) > 1e-8*a {
			t.Fatalf("the median was %v and is %v", a, b)
		}
		if slices.Min(out) < slices.Min(in)*(1-1e-8) || slices.Max(out) > slices.Max(in)*(1+1e-8) {
			t.Fatal("a sample was made up")
		}
	})
}

func TestSlug(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA H200": "nvidia-h200", "AMD EPYC 7B13 (64-Core)": "amd-epyc-7b13-64-core", "v1.2": "v1.2", "../..": "unnamed", "a/../b": "a-b", "a. b": "a-b", "": "unnamed", "日本": "unnamed", "CON ": "con",
	} {
		if got := Slug(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := Slug(rapid.String().Draw(t, "name"))
		if !filepath.IsLocal(got) || strings.ContainsAny(got, `/\ `) || got != Slug(got) || len(got) > 80 {
			t.Fatalf("%q", got)
		}
	})
}

func TestDir(t *testing.T) {
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	t.Chdir(t.TempDir())
	if got, err := Dir("x/y", env(nil)); got != "x/y" || err != nil {
		t.Error(got, err)
	}
	for _, home := range []string{"", ".", "relative"} { // the working directory is no home
		if got, err := Dir("", env(map[string]string{"HOME": home, "USERPROFILE": home})); got != "" || !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "--dir") {
			t.Errorf("HOME=%s: %q, %v", home, got, err)
		}
	}
	abs := t.TempDir()
	if got, _ := Dir("", env(map[string]string{"XDG_DATA_HOME": abs})); runtime.GOOS == "linux" && got != filepath.Join(abs, "gpuprof", "baselines") {
		t.Error(got)
	}
	if err := os.Mkdir("baselines", 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := Dir("", env(nil)); got != "baselines" || err != nil {
		t.Error(got, err)
	}
	for system, want := range map[string]string{"linux": "/h/.local/share", "darwin": "/h/Library/Application Support", "windows": "/local"} {
		got, _ := dataDir(env(map[string]string{"HOME": "/h", "LOCALAPPDATA": "/local", "XDG_DATA_HOME": "relative"}), system)
		if got = filepath.ToSlash(got); got != want {
			t.Errorf("%s: %s", system, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b := &Baseline{Head: document.NewHead(document.Baseline, gpuprof.Tool{}), Fingerprint: FingerprintOf(run(6, 10, 0))}
	s, err := newSession(run(6, 10, 0), from)
	if err != nil || b.add(s, 5) != nil {
		f.Fatal(err)
	}
	text, err := b.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"schema_version":"1.0.0","kind":"baseline","sessions":[null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := decode(text, "x.json")
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Error(err)
			}
			return
		}
		if len(b.Results()) != len(b.Sessions) {
			t.Error("a session was lost")
		}
		if _, err := b.encode(); err != nil {
			t.Error(err)
		}
	})
}
