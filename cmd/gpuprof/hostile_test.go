//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// poison is what a stranger's file may hold in any text: commands to a build server
// at the beginning, behind a line's end and inside, and what a terminal obeys.
const poison = "::stop-commands::x\x1b[31m\u202e\u009b2J##[error]\r\n::error::y\u2028\t::notice::z ##vso[task.x]\x00\x07"

// command is the first thing in a text that a build server obeys, "" where there is none:
// :: at a line's beginning but for whatever it counts as white space, and ##[word] anywhere.
// There are thousands of pages, and a pattern would look at every character of them.
func command(text string) string {
	for at := 0; ; at++ {
		next := strings.Index(text[at:], "::")
		if next < 0 {
			break
		}
		at += next
		before := strings.TrimRightFunc(text[:at], func(c rune) bool { return c != '\n' && c != '\r' && unicode.IsSpace(c) })
		if before == "" || strings.HasSuffix(before, "\n") || strings.HasSuffix(before, "\r") {
			return text[len(before):min(len(text), at+60)]
		}
	}
	for at := 0; ; at++ {
		next := strings.Index(text[at:], "##")
		if next < 0 {
			return ""
		}
		at += next
		if word := strings.TrimLeft(text[at+2:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"); strings.HasPrefix(word, "[") {
			return text[at:min(len(text), at+60)]
		}
	}
}

func TestCommandIsFound(t *testing.T) {
	for _, text := range []string{"::error::x", "a\n::x", "a\n\n \t::x", "\u00a0::x", "a\u2028b\n\u3000 ::x", "a\r::x", "a\r \u00a0::x", "a\r\n ::x", "x ##vso[task.y]", "##[error]", ":::x", "a:::\n::x", "###[x]"} {
		if command(text+"\nend") == "" {
			t.Errorf("no command was found in %q", text)
		}
	}
	for _, text := range []string{"", "std::vector", "a ::before", "a\n\nb::c", "## Title", "# [x]"} {
		if line := command(text); line != "" {
			t.Errorf("%q of %q is no command", line, text)
		}
	}
}

// escaped are the same characters inside the texts of JSON and of scripts.
var escaped = regexp.MustCompile(`\\u00[01][0-9a-f]|\\u00[89][0-9a-f]|\\u20(28|29|2[a-e])|\\x1b|\\r`)

// harmlessText fails where a text would do anything but be read. Zero-width spaces
// and marks of direction are gpuprof's own.
func harmlessText(t *testing.T, where, text string) {
	t.Helper()
	if found := command(text); found != "" {
		t.Errorf("%s has a command: %q", where, found)
	}
	at := strings.IndexFunc(text, func(c rune) bool {
		if ' ' <= c && c < unicode.MaxASCII {
			return false
		}
		return unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) && c != '\u200b' && c != '\u200e'
	})
	if at >= 0 {
		t.Errorf("%s has the character %q: %q", where, []rune(text[at:])[0], text[max(0, at-60):min(len(text), at+60)])
	}
}

// harmlessFile is harmlessText for a file of any format.
func harmlessFile(t *testing.T, where, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	switch {
	case strings.HasSuffix(path, ".png"):
		return // it has no text but gpuprof's own
	case strings.HasSuffix(path, ".pb.gz"):
		p, err := profile.ParseData(b)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range p.Function {
			all = append(all, f.Name, f.SystemName, f.Filename)
		}
		for _, s := range p.Sample {
			for k, v := range s.Label {
				all = append(append(all, k), v...)
			}
		}
		for _, s := range append(all, p.Comments...) {
			harmlessText(t, where, "name: "+s)
		}
		return
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	harmlessText(t, where, string(b))
	if !strings.Contains(path, ".json") && !strings.HasSuffix(path, ".html") {
		return
	}
	for line := range bytes.Lines(b) {
		if at := escaped.FindIndex(line); at != nil {
			t.Errorf("%s has %q", where, line[max(0, at[0]-60):min(len(line), at[1]+60)])
			return
		}
	}
}

var everyCode = []int{cli.ExitOK, cli.ExitRegression, cli.ExitUsage, cli.ExitInconclusive, cli.ExitFailed}

// harmless runs a command and looks at all it writes: standard output, standard
// error and files of each extension. codes are the exit codes that are fine.
func harmless(t *testing.T, codes []int, ext []string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for _, e := range ext {
		files = append(files, filepath.Join(dir, "out"+e))
		args = append(args, "-o", files[len(files)-1])
	}
	var out, err bytes.Buffer
	code := gpuprofRan(t, &out, &err, args...)
	where := fmt.Sprintf("%.60q", strings.Join(args, " "))
	if !slices.Contains(codes, code) {
		t.Errorf("%s: exit code %d: %s", where, code, err.String())
		return
	}
	harmlessText(t, where+" standard output", out.String())
	harmlessText(t, where+" standard error", err.String())
	for _, f := range files {
		if _, err := os.Stat(f); err != nil && (code == cli.ExitUsage || code == cli.ExitFailed) {
			continue // an error, and no result
		}
		harmlessFile(t, where+" "+filepath.Base(f), f)
	}
}

// structural are the fields by which a document is recognised and judged; with
// another value it is another document, or none.
var structural = []string{"schema_version", "kind", "sides", "status", "verdict", "parent", "goal", "mode", "workload", "preset", "step_source", "rule", "class", "part", "side", "unit", "total", "stages", "severity", "outcome"}

// plant puts the poison before and behind every string of a document, in values and
// keys, but for the fields that leave is true for.
func plant(v reflect.Value, name string, leave func(field string) bool) {
	put := func(s string) string { return poison + s + poison }
	switch v.Kind() {
	case reflect.String:
		if !leave(name) && v.CanSet() {
			v.SetString(put(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), name, leave)
		}
	case reflect.Interface:
		if !v.IsNil() {
			own := reflect.New(v.Elem().Type()).Elem()
			own.Set(v.Elem())
			plant(own, name, leave)
			v.Set(own)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			plant(v.Index(i), name, leave)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			own := reflect.New(v.Type().Elem()).Elem()
			own.Set(v.MapIndex(k))
			plant(own, name, leave)
			v.SetMapIndex(k, reflect.Value{})
			if k.Kind() == reflect.String && !leave(k.String()) {
				to := reflect.New(k.Type()).Elem()
				to.SetString(put(k.String()))
				k = to
			}
			v.SetMapIndex(k, own)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && tag != "-" {
				plant(v.Field(i), tag, leave)
			}
		}
	}
}

// planted decodes a document as it is, plants, and writes it to a new file.
func planted(t *testing.T, path string, doc any, leave func(field string) bool) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(b, doc); err != nil {
		t.Fatal(err)
	}
	plant(reflect.ValueOf(doc), "", leave)
	if b, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "planted.json")
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func keeps(fields ...string) func(string) bool {
	return func(f string) bool { return slices.Contains(fields, f) }
}

type hostileDocument struct {
	path  string
	doc   func() any
	shown func(path string) // by every verb and format
}

// hostileDocuments are the documents that gpuprof writes, by their Go types, each
// with how it is shown.
func hostileDocuments(t *testing.T) map[string]hostileDocument {
	t.Helper()
	dir, traces := t.TempDir(), filepath.Join("..", "..", "testdata", "traces")
	t.Setenv("GITHUB_ACTIONS", "")
	t.Setenv("GITHUB_STEP_SUMMARY", "")
	made := func(codes []int, file string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, file)
		harmless(t, codes, nil, append(args, "-o", path)...)
		return path
	}
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	madeRun(t, old, "off", 1e-5)
	madeRun(t, now, "on", 1e-5)
	before, after := filepath.Join(traces, "item-fires.json"), filepath.Join(traces, "item-quiet.json")
	verdictFormats := []string{".json", ".md", ".txt", ".html", ".bench", ".svg", ".xml"}
	studyFormats := []string{".json", ".md", ".txt", ".html", ".svg"}
	report := func(ext []string, formats ...string) func(string) {
		return func(path string) {
			for _, f := range formats {
				harmless(t, []int{cli.ExitOK}, nil, "report", path, "--format", f)
			}
			harmless(t, []int{cli.ExitOK}, ext, "report", path)
		}
	}
	return map[string]hostileDocument{
		"run": {filepath.Join("..", "..", "testdata", "gallery", "e3nn-csr.json.gz"), func() any { return &gpuprof.Run{} }, func(path string) {
			report([]string{".json", ".json.gz", ".html", ".md", ".txt", ".bench", ".svg", ".pb.gz", ".perfetto.json.gz"}, "table", "json", "bench", "markdown")(path)
			for _, kind := range wired.tables().Plots { // one run has not all of them
				harmless(t, []int{cli.ExitOK, cli.ExitUsage}, []string{".svg"}, "report", path, "--plot", kind)
			}
			harmless(t, []int{cli.ExitOK, cli.ExitInconclusive}, verdictFormats, "compare", path, old)
			harmless(t, []int{cli.ExitOK, cli.ExitRegression, cli.ExitInconclusive, cli.ExitFailed, cli.ExitUsage}, verdictFormats, "gate", old, path)
			store := filepath.Join(t.TempDir(), "store")
			harmless(t, []int{cli.ExitOK, cli.ExitFailed}, nil, "history", "baseline", "--dir", store, "add", path, "--machine", poison, "--command", poison)
			harmless(t, []int{cli.ExitOK}, nil, "history", "baseline", "--dir", store, "list")
			harmless(t, []int{cli.ExitUsage, cli.ExitOK, cli.ExitInconclusive, cli.ExitRegression}, nil, "gate", "auto", path, "--dir", store)
		}},
		"comparison": {made([]int{cli.ExitOK, cli.ExitInconclusive}, "comparison.json", "compare", old, now), func() any { return &compare.Comparison{} },
			report(verdictFormats, "table", "json", "bench", "markdown")},
		"tune":             {filepath.Join("..", "..", "testdata", "gallery", "tune.json.gz"), func() any { return &tune.Result{} }, report(studyFormats, "table", "json", "markdown")},
		"analysis":         {made([]int{cli.ExitOK}, "analysis.json", "analyze", before), func() any { return &analyze.Analysis{} }, report(studyFormats, "table", "json", "markdown")},
		"trace comparison": {made([]int{cli.ExitOK}, "traces.json", "analyze", "--compare", before, after), func() any { return &analyze.Comparison{} }, report(studyFormats, "table", "json", "markdown")},
		"baseline": {storedBaseline(t, old), func() any { return &baseline.Baseline{} }, func(path string) {
			store := filepath.Join(t.TempDir(), "store")
			folder := store + "/a\x1b[31m\u202edevice"
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			copyFile(t, path, filepath.Join(folder, "::error::x.json"))
			copyFile(t, path, filepath.Join(folder, "known.json"))
			harmless(t, []int{cli.ExitOK}, nil, "history", "baseline", "--dir", store, "list")
			harmless(t, []int{cli.ExitOK}, nil, "history", "baseline", "--dir", store, "list", "--format", "json")
			harmless(t, []int{cli.ExitOK}, nil, "history", "baseline", "--dir", store, "show", "known")
			harmless(t, []int{cli.ExitUsage}, nil, "gate", "auto", old, "--dir", store)
			harmless(t, []int{cli.ExitOK, cli.ExitRegression, cli.ExitInconclusive, cli.ExitUsage}, verdictFormats, "gate", path, old)
		}},
	}
}

// TestHostileDocuments plants in every field of every document at once, and then in
// the structural fields, one at a time, where the reader refuses most.
func TestHostileDocuments(t *testing.T) {
	documents := hostileDocuments(t)
	for nth, name := range slices.Sorted(maps.Keys(documents)) {
		d := documents[name]
		d.shown(planted(t, d.path, d.doc(), keeps(structural...)))
		d.shown(planted(t, d.path, d.doc(), keeps("schema_version", "kind", "sides", "status", "verdict", "parent", "goal", "mode", "rule", "class", "part", "side", "total", "stages")))
		for i, field := range structural {
			if !nightly && (i+nth)%3 != 0 {
				continue // by day each field in every third kind of document
			}
			path := planted(t, d.path, d.doc(), func(f string) bool { return f != field })
			if name == "baseline" {
				harmless(t, everyCode, nil, "gate", path, path)
				continue
			}
			harmless(t, everyCode, nil, "report", path)
			harmless(t, everyCode, nil, "compare", path, path)
		}
	}
}

// TestHostileResults does the same with files of other programs, which have no Go
// type: in every text of the JSON.
func TestHostileResults(t *testing.T) {
	t.Parallel()
	const folder = "../../internal/compare/results/testdata"
	for _, c := range []struct {
		file  string
		leave []string
	}{
		{"google.json", []string{"run_type", "time_unit", "aggregate_name"}}, {"hyperfine.json", nil}, {"pytest.json", nil}, {"nvbench.json", []string{"tag", "type", "name", "value", "hint"}},
	} {
		path := plantedTexts(t, filepath.Join(folder, c.file), func(key, _ string) bool { return slices.Contains(c.leave, key) })
		harmless(t, everyCode, []string{".json", ".md", ".txt", ".html", ".xml", ".bench"}, "compare", path, path)
		harmless(t, everyCode, nil, "gate", path, filepath.Join(folder, c.file))
	}
	lines := filepath.Join(t.TempDir(), "bench.txt")
	text := strings.ReplaceAll(poison, "\n", "")
	if err := os.WriteFile(lines, []byte("cpu: "+text+"\n"+strings.Repeat("BenchmarkX/a="+strings.ReplaceAll(strings.ReplaceAll(text, " ", ""), "\t", "")+" 10 100 ns/op 3 x\u202e/op\n--- FAIL: Benchmark"+text+"\n", 6)), 0o600); err != nil {
		t.Fatal(err)
	}
	harmless(t, everyCode, []string{".json", ".md", ".txt", ".html", ".xml", ".bench"}, "compare", lines, lines)
}

// TestHostileTrace: names of kernels, threads, devices and frames, and what a
// recording says of its program.
func TestHostileTrace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"item-fires.json", "exposed-copy-fires.json", "dataloader-stall-fires.json"} {
		path := plantedTexts(t, filepath.Join("..", "..", "testdata", "traces", name), func(key, text string) bool {
			format := slices.ContainsFunc([]string{"cuda", "Memcpy", "ProfilerStep"}, func(p string) bool { return strings.HasPrefix(text, p) })
			return format || slices.Contains([]string{"ph", "cat", "ts", "displayTimeUnit"}, key) || strings.HasSuffix(text, "_name")
		})
		dir := filepath.Dir(path)
		telemetry := record.Result{Head: document.NewHead(document.Recording, wired.tables().Tool), Command: []string{poison, poison}, Traces: []string{filepath.Base(path)}, Warnings: []gpuprof.Warning{{Code: "planted", Text: poison}}}
		b, err := json.Marshal(telemetry)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "telemetry.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		all := []string{".json", ".md", ".txt", ".html", ".svg", ".pb.gz", ".perfetto.json.gz"}
		harmless(t, []int{cli.ExitOK}, all, "analyze", path)
		harmless(t, []int{cli.ExitOK}, nil, "analyze", path, "--format", "markdown")
		harmless(t, []int{cli.ExitOK}, []string{".json", ".md", ".txt", ".html"}, "analyze", "--compare", path, path)
		harmless(t, []int{cli.ExitOK, cli.ExitRegression, cli.ExitUsage}, []string{".xml", ".md"}, "gate", path, "--max", "sync_points=0")
	}
}

// plantedTexts writes a JSON file again with its texts planted, but for those that
// leave is true for: they and the keys are its format.
func plantedTexts(t *testing.T, path string, leave func(key, text string) bool) string {
	t.Helper()
	var walk func(v any, key string) any
	walk = func(v any, key string) any {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				v[k] = walk(x, k)
			}
		case []any:
			for i, x := range v {
				v[i] = walk(x, key)
			}
		case string:
			if !leave(key, v) {
				return poison + v + poison
			}
		}
		return v
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(walk(doc, "")); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestHostileNames: what was typed, names of files and of revisions, and the last
// words of a program come back in messages.
func TestHostileNames(t *testing.T) {
	name := strings.NewReplacer("/", "_", "\x00", "").Replace(poison)
	dir := t.TempDir()
	file := filepath.Join(dir, name+".json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := []int{cli.ExitUsage, cli.ExitFailed}
	for _, args := range [][]string{
		{name}, {"report", file}, {"report", name + ".json"}, {"report", name}, {"compare", file, file}, {"gate", file, file}, {"gate", name}, {"analyze", file}, {"analyze", name}, {"analyze", dir},
		{"run", name}, {"run", "gruflow", "--set", name}, {"run", "gruflow", "--preset", name}, {"run", "gruflow", "--device", name}, {"run", "gruflow", "-o", name}, {"run", "--" + name},
		{"explain", "list", name}, {"run", "--check", "gruflow", "--vectors", file}, {"run", "--check", "gruflow", "--vectors", name}, {"tune", name}, {"tune", "gruflow", "--knob", name}, {"tune", "--resume", file},
		{"history", "baseline", "--dir", dir, "add", file}, {"history", "baseline", "--dir", dir, "show", name}, {"history", "baseline", "--dir", dir, "rm", name}, {"pprof", file}, {"pprof", name, "-top"}, {"explain", "schema", name}, {"completion", name},
		{"gate", "gruflow", "--against", name}, {"gate", "gruflow", "--against", "./" + name}, {"gate", file, file, "--threshold", name}, {"gate", file, "--max", name}, {"run", "--", name}, {"doctor", "--device", name},
		{"gate", "--aa", "--budget", "1m", "--", "sh", "-c", "printf '\\033[31m\\n::error::x\\n##[error]\\n' >&2; exit 3"},
	} {
		harmless(t, bad, nil, args...)
	}
}

// storedBaseline is the file of a baseline that holds a run.
func storedBaseline(t *testing.T, path string) string {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	harmless(t, []int{cli.ExitOK}, nil, "history", "baseline", "--dir", store, "add", path)
	found, err := filepath.Glob(filepath.Join(store, "*", "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	return found[0]
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
