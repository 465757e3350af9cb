package runfile_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/runfile"
)

func encode(runs ...*gpuprof.Run) func(io.Writer) error {
	return func(w io.Writer) error { return document.EncodeRuns(w, runs...) }
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]string{
		"a.json": ".json", "b/c.JSON.GZ": ".json.gz", "x.json.zst": ".json.zst", "r.html": ".html", "p.png": ".png",
		"t.perfetto.json.gz": ".perfetto.json.gz", "t.PERFETTO.json": ".perfetto.json", "p.svg": ".svg", "j.xml": ".xml", "p.pb.gz": ".pb.gz", "r.md": ".md", "r.txt": ".txt", "r.bench": ".bench", "a.b.json": ".json", "s.speedscope.json": ".speedscope.json", "s.folded": ".folded",
	} {
		f, err := runfile.FormatOf(path)
		if err != nil || f.Ext != want {
			t.Errorf("%s: %q, %v, want %s", path, f.Ext, err, want)
		}
	}
	for _, path := range []string{"a", "a.gz", "a.jpeg", "json", "", "dir/", "a.perfetto.json.zst", "a.speedscope.json.gz"} {
		_, err := runfile.FormatOf(path)
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), ".json.zst") {
			t.Errorf("%q: %v, want a usage error that names the extensions", path, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"run.json", "run.json.gz", "run.json.zst"} {
		for _, runs := range [][]*gpuprof.Run{{fixture.Three()}, fixture.Sweep()} {
			path := filepath.Join(t.TempDir(), name)
			if err := runfile.Write(path, false, encode(runs...)); err != nil {
				t.Fatal(name, err)
			}
			got, err := runfile.Read(t.Context(), path)
			if err != nil || len(got) != len(runs) {
				t.Fatalf("%s: %d runs, %v", name, len(got), err)
			}
			if got[0].Step.Median != runs[0].Step.Median || got[0].Knobs["batch"] != runs[0].Knobs["batch"] {
				t.Errorf("%s: the run changed on the way", name)
			}
			// Our own file may be written again, in place.
			if err := runfile.Check(path, false); err != nil {
				t.Error(name, err)
			}
			if err := runfile.Write(path, false, encode(fixture.One())); err != nil {
				t.Error(name, err)
			}
			onlyFile(t, filepath.Dir(path), name)
		}
	}
}

// onlyFile fails when dir holds anything but the named files.
func onlyFile(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(names) {
		t.Errorf("%s holds %v, want %v", dir, entries, names)
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := filepath.Join(dir, "whole.json.gz")
	if err := runfile.Write(whole, false, encode(fixture.One())); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "missing.json"):                 gpuprof.ErrUsage,
		put("wrong.html", "<html>"):                        gpuprof.ErrUsage,
		put("empty.json", ""):                              gpuprof.ErrInput,
		put("cut.json", `{"schema_version":"1.0.0"`):       gpuprof.ErrInput,
		put("newer.json", `{"schema_version":"2.0.0"}`):    gpuprof.ErrInput,
		put("other.json", `{"hello":1}`):                   gpuprof.ErrInput,
		put("none.json", `[]`):                             gpuprof.ErrInput,
		put("not.json.gz", "\x00\x01"):                     gpuprof.ErrInput,
		put("cut.json.gz", string(packed[:len(packed)/2])): gpuprof.ErrInput,
		put("not.json.zst", "not zstd"):                    gpuprof.ErrInput,
		put("x", ""):                                       gpuprof.ErrUsage,
		func() string { p := filepath.Join(dir, "d.json"); _ = os.Mkdir(p, 0o755); return p }(): gpuprof.ErrUsage,
	} {
		runs, err := runfile.Read(t.Context(), path)
		if !errors.Is(err, want) || runs != nil {
			t.Errorf("%s: %v and %d runs, want %v", filepath.Base(path), err, len(runs), want)
		} else if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s is not named in %v", filepath.Base(path), err)
		}
	}
}

func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(dir, "missing", "run.json"), // no such directory
		filepath.Join(file, "run.json"),           // a file where a directory should be
		filepath.Join(dir, strings.Repeat("n", 300)+".json"),
	} {
		for name, err := range map[string]error{"Check": runfile.Check(path, true), "Write": runfile.Write(path, true, encode(fixture.One()))} {
			if !errors.Is(err, gpuprof.ErrUsage) || strings.Contains(err.Error(), ".tmp") {
				t.Errorf("%s %.60s: %v, want a usage error about that path", name, path, err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := runfile.Check(filepath.Join(dir, "dir.json"), true); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("a directory: %v", err)
	}
	onlyFile(t, dir, "file", "dir.json")
}

func TestEncoderFailureLeavesTheOldFile(t *testing.T) {
	broken := errors.New("encoder broke")
	for _, name := range []string{"run.json", "run.json.gz", "run.json.zst", "r.html"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		fail := func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("half"), 1<<16))
			return errors.Join(err, broken)
		}
		if err := runfile.Write(path, false, fail); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		onlyFile(t, dir)
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := runfile.Write(path, true, fail); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
			t.Errorf("%s: the old file is %q, %v", name, b, err)
		}
		onlyFile(t, dir, name)
	}
}

// TestForeignFilesAreKept: a file that mentions gpuprof is not a file by gpuprof.
func TestForeignFilesAreKept(t *testing.T) {
	var own bytes.Buffer
	if err := (&profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "ns"}}, Comments: []string{"not written by gpuprof"}}).Write(&own); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"notes.md":    "# written by gpuprof? no, by me\n<!-- written by gpuprof -->\n",
		"notes.txt":   "I compared gpuprof with nvbench.\n# written by gpuprof\n",
		"old.bench":   "goos: linux\n# written by gpuprof\nBenchmarkGpuprof 1 2 ns/op\n",
		"config.json": `{"name":"gpuprof","tools":["gpuprof"],"tool":"gpuprof","schema_version":"1.0.0"}`,
		"nested.json": `{"schema_version":"1","note":{"tool":{"name":"gpuprof"}}}`,
		"list.json":   `["gpuprof", {"tool":{"name":"gpuprof"}}]`,
		"text.json":   "gpuprof",
		"page.html":   `<html><head><title>x</title></head><body>&lt;meta name="generator" content="gpuprof 1"&gt;<meta name="generator" content="gpuprof 1"></body>`,
		"note.html":   `<html><head><!-- <meta name="generator" content="gpuprof 1"> --></head></html>`,
		"like.html":   `<html><head><meta name="generator" content="gpuprofiler"></head></html>`,
		"draw.svg":    `<svg xmlns="http://www.w3.org/2000/svg"><!-- written by gpuprof --><text>gpuprof</text></svg>`,
		"photo.png":   "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR Software=gpuprof",
		"bytes.png":   "gpuprof",
		"mine.pb.gz":  own.String(),
		"bad.pb.gz":   "gpuprof",
		"bad.json.gz": "gpuprof",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"Check": runfile.Check(path, false), "Write": runfile.Write(path, false, encode(fixture.One()))} {
			if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "--force") {
				t.Errorf("%s %s: %v, want a refusal that names --force", what, name, err)
			}
		}
		if b, _ := os.ReadFile(path); string(b) != content {
			t.Errorf("%s was changed", name)
		}
		if err := runfile.Write(path, true, encode(fixture.One())); err != nil {
			t.Errorf("%s with force: %v", name, err)
		}
	}
}

func TestTextFormatsCarryTheMark(t *testing.T) {
	for _, name := range []string{"r.md", "r.txt", "r.bench"} {
		path := filepath.Join(t.TempDir(), name)
		for range 2 { // the second write meets the first one's file
			if err := runfile.Write(path, false, func(w io.Writer) error { _, err := io.WriteString(w, "body\n"); return err }); err != nil {
				t.Fatal(name, err)
			}
		}
	}
}

func TestLinksAndModesSurvive(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	if err := runfile.Write(real, false, encode(fixture.One())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(real, 0o640), os.Symlink("real.json", link)); err != nil {
		t.Fatal(err)
	}
	if err := runfile.Write(link, false, encode(fixture.Three())); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v, want 0640", info.Mode(), err)
	}
	if runs, err := runfile.Read(t.Context(), real); err != nil || len(runs[0].Step.Runs) != 3 {
		t.Errorf("the file behind the link was not written: %v", err)
	}
}

// TestNotANumberIsRefusedWhole: a run that JSON cannot hold leaves no file.
func TestNotANumberIsRefusedWhole(t *testing.T) {
	dir := t.TempDir()
	r := fixture.One()
	r.Step.Median = math.NaN()
	if err := runfile.Write(filepath.Join(dir, "run.json"), false, encode(r)); err == nil {
		t.Error("a run with NaN was written")
	}
	onlyFile(t, dir)
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "[", `{"schema_version":"1.0.0"}`, `[null]`, `{"schema_version":"1.0.0","step":{"runs":[[1,2],null]}}`, `{"schema_version":"1.0.0","order":[[1]],"telemetry":{"a":{"value":[null]}}}`} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
		f.Add([]byte(seed), uint8(2))
	}
	f.Fuzz(func(t *testing.T, content []byte, ext uint8) {
		path := filepath.Join(t.TempDir(), "run"+[]string{".json", ".json.gz", ".json.zst"}[ext%3])
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		runs, err := runfile.Read(t.Context(), path)
		if err == nil && (len(runs) == 0 || runs[0] == nil) {
			t.Error("no run and no error")
		}
		if err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%v is not an input error", err)
		}
		_ = runfile.Check(path, false) // must not panic
	})
}
