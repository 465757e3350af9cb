package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// readers are command lines of every verb that reads a file or a folder, whose name is IN.
func readers(run string) map[string][]string {
	return map[string][]string{
		"no verb":               {"IN"},
		"analyze":               {"analyze", "IN"},
		"analyze --compare":     {"analyze", "--compare", "IN", "IN"},
		"report":                {"report", "IN"},
		"compare old":           {"compare", "IN", run},
		"compare new":           {"compare", run, "IN"},
		"gate old":              {"gate", "IN", run},
		"gate new":              {"gate", run, "IN"},
		"gate auto":             {"gate", "auto", "IN", "--dir", "nowhere"},
		"gate --max":            {"gate", "IN", "--max", "sync_points=3"},
		"history add":           {"history", "add", "IN", "--store", "STORE"},
		"history baseline add":  {"history", "baseline", "add", "IN", "--dir", "STORE"},
		"fleet":                 {"fleet", "IN"},
		"pprof":                 {"pprof", "IN", "-top"},
		"run --check":           {"run", "--check", "e3nn", "--device", "host", "--vectors", "IN"},
		"run --baseline":        {"run", "e3nn", "--device", "host", "--baseline", "IN"},
		"run watch":             {"run", "watch", "IN"},
		"run record":            {"run", "record", "IN"},
		"tune --resume":         {"tune", "e3nn", "--device", "host", "--resume", "IN"},
		"bisect --show":         {"bisect", "--show", "IN"},
		"doctor --against":      {"doctor", "--bench", "--device", "host", "--against", "IN"},
		"a verb of before":      {"watch", "IN", "--quiet"},
		"baseline of a version": {"baseline", "add", "IN", "--quiet", "--dir", "STORE"},
	}
}

// wrongInputs are a path of each kind that no verb can use.
func wrongInputs(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	in := map[string]string{}
	for kind, name := range map[string]string{"missing": "missing.json", "empty": "empty.json", "text": "text.json", "cut": "cut.json.gz", "binary": "binary.json", "folder": "folder", "below a file": "text.json/x.json", "loop": "loop.json"} {
		in[kind] = filepath.Join(dir, name)
	}
	for _, err := range []error{
		os.WriteFile(in["empty"], nil, 0o600), os.WriteFile(in["text"], []byte("hello, this is prose\n"), 0o600),
		os.WriteFile(in["cut"], []byte{0x1f, 0x8b, 8, 0, 0, 0}, 0o600), os.WriteFile(in["binary"], []byte{0, 1, 2, 0xfe, 0xff, 0, 7}, 0o600),
		os.Mkdir(in["folder"], 0o700), os.Symlink("loop.json", in["loop"]),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() != 0 { // root reads every file
		in["no permission"] = filepath.Join(dir, "closed.json")
		if err := os.WriteFile(in["no permission"], []byte("{}"), 0); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// Every verb ends with one plain sentence and exit code 2 or 4 for a file that it cannot use.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	run := filepath.Join("..", "..", "testdata", "gallery", "e3nn-csr.json.gz")
	for kind, path := range wrongInputs(t) {
		for name, line := range readers(run) {
			if name == "tune --resume" && kind == "missing" {
				continue // it begins there
			}
			args := slices.Clone(line)
			for i := range args {
				args[i] = strings.NewReplacer("IN", path, "STORE", filepath.Join(t.TempDir(), "store")).Replace(args[i])
			}
			var stdout, stderr strings.Builder
			code := gpuprofRan(t, &stdout, &stderr, args...)
			text := strings.TrimSuffix(stderr.String(), "\n")
			lines := strings.Split(text, "\n")
			lines = slices.DeleteFunc(lines, func(l string) bool {
				return strings.HasPrefix(l, "gpuprof: measuring on ") || strings.HasPrefix(l, "gpuprof: warning: ")
			})
			if code != cli.ExitUsage && code != cli.ExitFailed || len(lines) != 1 || !strings.HasPrefix(lines[0], "gpuprof: ") || stdout.Len() > 0 {
				t.Errorf("%s, %s: exit code %d, standard output %q, standard error %s", name, kind, code, &stdout, text)
				continue
			}
			if kind == "missing" && code != cli.ExitUsage {
				t.Errorf("%s, %s: exit code %d: %s", name, kind, code, text)
			}
			for _, slip := range []string{"%!", "<nil>", "goroutine", "EOF", "0x", "invalid character"} {
				if strings.Contains(text, slip) {
					t.Errorf("%s, %s: %s", name, kind, text)
				}
			}
			if parts := strings.Split(lines[0], "; "); len(parts) < 2 {
				t.Errorf("%s, %s: no fix: %s", name, kind, text)
			}
		}
	}
}

// closed is a pipe whose reader has gone.
type closed struct{}

func (closed) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
}

// Output that nobody reads, as behind head, ends each verb with one plain sentence; where the system does not end the
// process itself.
func TestClosedPipes(t *testing.T) {
	t.Parallel()
	testdata := filepath.Join("..", "..", "testdata")
	run, trace := filepath.Join(testdata, "gallery", "e3nn-csr.json.gz"), filepath.Join(testdata, "traces", "item-fires.json")
	for _, args := range [][]string{
		{run}, {trace}, {"analyze", trace}, {"report", run}, {"compare", run, run}, {"gate", run, run}, {"doctor"}, {"explain", "item"}, {"explain", "list"},
		{"explain", "schema"}, {"help"}, {"help", "run"}, {"help", "gate"}, {"version"}, {"completion", "bash"},
	} {
		var stderr strings.Builder
		code := gpuprofRan(t, closed{}, &stderr, append([]string{"--quiet"}, args...)...)
		if code != cli.ExitUsage || stderr.String() != "gpuprof: printing to standard output: broken pipe; send it where it can be written\n" {
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
	}
}
