package results

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

func noSideFiles(string) ([]byte, error) { return nil, fs.ErrNotExist }

// read parses a file of testdata, which holds one result.
func read(t testing.TB, name string) *compare.Result {
	t.Helper()
	rs, _, err := Read(filepath.Join("testdata", name), OS)
	if err != nil || len(rs) != 1 {
		t.Fatal(rs, err)
	}
	return rs[0]
}

// parseOne parses a text with one result; an error gives a result without metrics.
func parseOne(text, name string, side reader) (*compare.Result, error) {
	rs, _, err := Parse([]byte(text), name, side)
	if err != nil {
		return &compare.Result{}, err
	}
	return rs[0], nil
}

// ownEnv is the environment without the format, which every result has.
func ownEnv(r *compare.Result) map[string]string {
	env := maps.Clone(r.Env)
	delete(env, "format")
	return env
}

// brief is a series in one line: name, unit, how many runs of how many
// samples, whether more is better and whether it counts, and the first value.
func brief(r *compare.Result) []string {
	var out []string
	for _, m := range r.Metrics {
		var sizes []string
		for _, run := range m.Runs {
			sizes = append(sizes, fmt.Sprint(len(run)))
		}
		line := fmt.Sprintf("%s [%s] %s %.4g", m.Name, m.Unit, strings.Join(sizes, "+"), m.Runs[0][0])
		if m.HigherIsBetter {
			line += " higher"
		}
		if m.Exact {
			line += " exact"
		}
		if m.Undirected {
			line += " undirected"
		}
		out = append(out, line)
	}
	return out
}

func texts(ws []gpuprof.Warning) []string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Text)
	}
	return out
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		file, format, tool string
		series             []string
		env                map[string]string
		failed, notes      []string // notes by their text
	}{
		{file: "gobench.txt", format: FormatGo, tool: "go test", series: []string{
			"Sum/n=64 [s] 1+1+1 3.015e-07", "Sum/n=64:B/s [B/s] 1+1+1 1.698e+09 higher", "Sum/n=64:B/op [B/op] 1+1+1 16", "Sum/n=64:allocs/op [allocs/op] 1+1+1 2 exact",
			"Grow [s] 1+1+1 0.00012", "Grow:B/op [B/op] 1+1+1 5.222e+04", "Grow:allocs/op [allocs/op] 1+1+1 41",
		}, env: map[string]string{"goos": "linux", "goarch": "amd64", "cpu": "AMD EPYC", "gomaxprocs": "8"}},
		{file: "nvbench.json", format: FormatNVBench, tool: "NVBench 0.2.0", series: []string{
			"copy[T=F32 n=1024] [s] 40 0.0009974", "copy[T=F32 n=1024]:batch [s] 1 0.0009699", "copy[T=F32 n=1024]:cpu_time [s] 1 0.0011",
			"copy[T=F64 n=1024] [s] 40 0.001984", "copy[T=F64 n=1024]:batch [s] 1 0.001936", "copy[T=F64 n=1024]:cpu_time [s] 1 0.002195",
			"host_only [s] 1 0.004",
		}, env: map[string]string{"device": "Example GPU", "compute_capability": "9.0", "ecc": "on"},
			failed: []string{"copy[n=2097152]: Unexpected error: out of memory"}, notes: []string{"copy[n=1048576] was skipped: n is too large here"}},
		{file: "nvbench-means.json", format: FormatNVBench, tool: "NVBench 0.2.0", series: []string{
			"copy [s] 1 0.00125", "copy:batch [s] 1 0.001213", "copy:cpu_time [s] 1 0.001375",
		}, env: map[string]string{"device": "Example GPU", "compute_capability": "9.0", "ecc": "on"}},
		{file: "google.json", format: FormatGoogle, tool: "Google Benchmark", series: []string{
			"BM_sum/64 [s] 3 5.39e-08", "BM_sum/64:cpu_time [s] 3 5.389e-08", "BM_sum/64:allocs [] 3 3 exact",
			"BM_sum/64:bytes_per_second [B/s] 3 9.5e+09 higher", "BM_sum/64:items_per_second [items/s] 3 1.188e+09 higher", "BM_sum/64:rate [] 3 1.856e+07 higher",
			"BM_man/iterations:20/manual_time [s] 3 1e-05", "BM_man/iterations:20/manual_time:cpu_time [s] 3 8.36e-08",
		}, env: map[string]string{"cpus": "2", "library_build_type": "debug"},
			failed: []string{"BM_err: no device", "BM_err: no device", "BM_err: no device"}},
		{file: "pytest.json", format: FormatPytest, tool: "pytest-benchmark 5.3.1", series: []string{
			"test_example.py::test_sum[10] [s] 6 2.902e-07", "test_example.py::test_sum[20] [s] 6 2.958e-07", "test_example.py::test_join [s] 5 3.876e-07",
		}, env: map[string]string{"arch": "x86_64", "cpu": "AMD EPYC"}},
		{file: "pytest-no-rounds.json", format: FormatPytest, tool: "pytest-benchmark 5.3.1", series: []string{
			"test_example.py::test_sum[10] [s] 1 2.279e-07", "test_example.py::test_sum[20] [s] 1 2.812e-07", "test_example.py::test_join [s] 1 2.298e-07",
		}, env: map[string]string{"arch": "x86_64", "cpu": "AMD EPYC"},
			notes: []string{"pytest-benchmark kept no single rounds, only medians"}},
		{file: "hyperfine.json", format: FormatHyperfine, tool: "hyperfine", series: []string{
			"sleep 0.001 [s] 1+1+1+1+1+1 0.001944", "sleep 0.002 [s] 1+1+1+1+1+1 0.002967",
		}, env: map[string]string{}},
	} {
		got := read(t, c.file)
		if got.Tool != c.format || got.Env["format"] != c.format || got.Facts["tool"] != c.tool {
			t.Errorf("%s: format %s by %s", c.file, got.Tool, got.Facts["tool"])
		}
		for what, d := range map[string]string{
			"series": cmp.Diff(c.series, brief(got)), "env": cmp.Diff(c.env, ownEnv(got)),
			"failed": cmp.Diff(c.failed, got.Failed), "notes": cmp.Diff(c.notes, texts(got.Warnings)),
		} {
			if d != "" {
				t.Errorf("%s: %s differ (-want +got):\n%s", c.file, what, d)
			}
		}
	}
}

// TestSampleFilesAreRead: the medians over a sample file are those that the
// benchmark wrote into its summary, which used the same samples.
func TestSampleFilesAreRead(t *testing.T) {
	r := read(t, "nvbench.json")
	var mean float64
	for _, v := range r.Metric("copy[T=F32 n=1024]").Runs[0] {
		mean += v / 40
	}
	// The text holds the mean of the doubles that were rounded to float32.
	text, _ := os.ReadFile("testdata/nvbench.json")
	if !bytes.Contains(text, []byte(fmt.Sprintf("%.7f", mean)[:8])) {
		t.Errorf("the mean %v is not the one of the summary", mean)
	}
	whole, _ := os.ReadFile("testdata/nvbench.json")
	for name, open := range map[string]reader{
		"as earlier versions named it": func(p string) ([]byte, error) {
			if want := filepath.Join("testdata", "nvbench.json-bin"); filepath.Dir(p) != want {
				return nil, fs.ErrNotExist
			}
			return os.ReadFile(p)
		},
	} {
		for _, side := range []string{"/tmp/build/nvbench.json-bin", "out/nvbench.json-bin", `..\\..\\nvbench.json-bin`} {
			moved := strings.ReplaceAll(string(whole), "nvbench.json-bin", side)
			r, err := parseOne(moved, "testdata/nvbench.json", open)
			if err != nil || len(r.Metric("copy[T=F32 n=1024]").Runs[0]) != 40 {
				t.Errorf("%s, %s: %v", name, side, err)
			}
		}
	}
	r, err := parseOne(string(whole), "testdata/nvbench.json", noSideFiles)
	if err != nil || len(r.Metric("copy[T=F32 n=1024]").Runs[0]) != 1 || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0].Text, "sample files") {
		t.Errorf("without sample files: %v, %v", r.Warnings, err)
	}
}

// TestSampleFilesStayBeside: no name inside a file makes gpuprof open anything
// outside the file's own folder.
func TestSampleFilesStayBeside(t *testing.T) {
	whole, _ := os.ReadFile("testdata/nvbench.json")
	for _, side := range []string{"/etc", "../../..", "/", "a/../../b", `C:\\Windows`, "..", ""} {
		moved := strings.ReplaceAll(string(whole), "nvbench.json-bin", side)
		_, err := parseOne(moved, filepath.Join("dir", "x.json"), func(p string) ([]byte, error) {
			if rel, err := filepath.Rel("dir", p); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("%s: opens %s", side, p)
			}
			return nil, fs.ErrNotExist
		})
		if err != nil {
			t.Errorf("%s: %v", side, err)
		}
	}
}

func TestBrokenSampleFiles(t *testing.T) {
	whole, _ := os.ReadFile("testdata/nvbench.json")
	nan := bytes.Repeat([]byte{0, 0, 0xc0, 0x7f}, 40)
	for want, content := range map[string][]byte{
		"0.bin holds 39 samples and the summary says 40, so the file was cut": bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 39),
		"0.bin has 41 bytes, which is no whole number of":                     make([]byte, 41),
		"is null, NaN or infinite (sample 1 of run 1)":                        nan,
		"is -1 s (sample 1 of run 1)":                                         bytes.Repeat([]byte{0, 0, 0x80, 0xbf}, 40),
		"0.bin holds 0 samples and the summary says 40":                       {},
	} {
		_, err := parseOne(string(whole), "x.json", func(string) ([]byte, error) { return content, nil })
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

const oneHyperfine = `{"results":[{"command":"a","times":[1.0,1.1]}]}`

func TestBadFiles(t *testing.T) {
	pytest := func(stats string) string {
		return `{"machine_info":{},"benchmarks":[{"fullname":"t.py::a","stats":` + stats + `}]}`
	}
	google := func(row string) string { return `{"context":{},"benchmarks":[{"name":"a",` + row + `}]}` }
	nvbench := func(major, value string) string {
		return `{"meta":{"version":{"json":{"major":` + major + `,"string":"` + major + `.0.0"}}},"devices":[],"benchmarks":[{"name":"a","states":[{"summaries":[
			{"tag":"nv/cold/time/gpu/mean","data":[{"name":"value","type":"float64","value":` + value + `}]}]}]}]}`
	}
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		" \n\t":                             "the file is empty",
		"{":                                 "the JSON ends early",
		oneHyperfine[:len(oneHyperfine)-12]: "the JSON ends early",
		"{\n\n\"a\": ?}":                    "line 3: ",
		"[]":                                "it holds no result",
		"{}":                                "none of the formats known",
		"[1,2]":                             "none of the formats known",
		`{"traceEvents":[]}`:                "it is a trace",
		`{"schema_version":"1.0.0","verdict":"pass"}`:                                  "it is a comparison",
		`{"schema_version":"1.0.0","kind":"gate","verdict":"pass","workload":"e3nn"}`:  "it is a comparison",
		`{"schema_version":"1.0.0","kind":"tune","goal":"time","workload":"e3nn"}`:     "it is a tuning result",
		`{"schema_version":"1.0.0","kind":"baseline","sessions":[],"workload":"e3nn"}`: "it is a stored baseline",
		`{"schema_version":"1.0.0","sessions":[]}`:                                     "it is a stored baseline",
		`{"schema_version":"1.0.0"}`:                                                   "holds no run",
		`{"schema_version":"7.1.0","workload":"e3nn"}`:                                 "schema_version 7.1.0 is newer",
		`{"schema_version":"7.1.0"}`:                                                   "schema_version 7.1.0 is newer",
		`{"schema_version":"9.0.0","step_source":"","findings":[]}`:                    "schema_version 9.0.0 is newer",
		oneHyperfine + pytest(`{"data":[1]}`):                                          "mixes documents of several formats",
		"SQLite format 3\x00....":                                                      "it is a database",
		"hello, world":                                                                 "no line of a Go benchmark",
		"goos: linux\nPASS\n":                                                          "no line of a Go benchmark",
		"\n\nBenchmarkA-8 100":                                                         "line 3: missing measurements",
		"\n\n{\n?}":                                                                    "line 4: ",
		"BenchmarkA-8 100":                                                             "line 1: missing measurements",
		"goos: linux\nBenchmarkA-8 100 12":                                             "line 2: missing units",
		"BenchmarkA-8 100 NaN ns/op":                                                   "A is null, NaN or infinite (sample 1 of run 1)",
		"BenchmarkA-8 100 -5 ns/op":                                                    "A is -5e-09 s (sample 1 of run 1)",
		"BenchmarkA-8 1x0 -5 ns/op":                                                    "parsing iteration count",
		"BenchmarkA\n--- FAIL: BenchmarkA\nFAIL":                                       "every benchmark failed",
		pytest(`{"data":[1,NaN]}`):                                                     "a is null, NaN or infinite (sample 2 of run 1)",
		pytest(`{"data":[1,null]}`):                                                    "a is null, NaN or infinite (sample 2 of run 1)",
		pytest(`{"data":[1,-1]}`):                                                      "a is -1 s (sample 2 of run 1)",
		pytest(`{"data":["x"]}`):                                                       "not a number",
		pytest(`{"data":[],"median":NaN}`):                                             "a is null, NaN or infinite (sample 1",
		pytest(`{"mean":Infinity}`):                                                    "a is null, NaN or infinite (sample 1",
		pytest(`{}`):                                                                   "neither rounds nor a median",
		pytest(`null`):                                                                 "has no stats",
		`{"machine_info":{},"benchmarks":[]}`:                                          "it holds no benchmark",
		`{"machine_info":{},"benchmarks":[{"stats":{}}]}`:                              "benchmark 1 has no name",
		`{"machine_info":{},"benchmarks":[{"name":"a","has_error":true}]}`:             "every benchmark failed",
		google(`"real_time":NaN,"cpu_time":1`):                                         "a is null, NaN or infinite (sample 1",
		google(`"real_time":1e999,"cpu_time":1`):                                       "a is null, NaN or infinite (sample 1",
		google(`"real_time":-1,"cpu_time":1`):                                          "a is -1e-09 s (sample 1 of run 1)",
		google(`"real_time":1,"time_unit":"fortnights"`):                               "fortnights",
		google(`"iterations":1`):                                                       "has no times",
		google(`"error_occurred":true,"error_message":"boom"`):                         "every benchmark failed, the first a: boom",
		google(`"run_type":"aggregate","real_time":1`):                                 "it holds no benchmark",
		google(`"skipped":true,"skip_message":"not here"`):                             "a was skipped: not here",
		`{"context":{"json_schema_version":2},"benchmarks":[]}`:                        "json_schema_version 2 is newer",
		`{"context":[],"benchmarks":[]}`:                                               "context is a array",
		nvbench("2", `"1"`):                                                            "file version 2.0.0 is newer",
		nvbench("1", `"nan"`):                                                          "a is null, NaN or infinite (sample 1",
		nvbench("1", `"-inf"`):                                                         "a is null, NaN or infinite (sample 1",
		nvbench("1", `"-1"`):                                                           "a is -1 s (sample 1 of run 1)",
		nvbench("1", `{}`):                                                             "a is null, NaN or infinite (sample 1",
		`{"results":[]}`:                                                               "it holds no benchmark",
		`{"results":[{"command":"a"}]}`:                                                `command "a" has no times`,
		`{"results":[{"command":"a","times":[]}]}`:                                     `command "a" has no times`,
		`{"results":[{"command":"a","times":[1],"exit_codes":[1]}]}`:                   "run 1 ended with exit code 1",
		`{"results":[{"command":"a","times":[1],"exit_codes":[null]}]}`:                "run 1 was killed by a signal",
	} {
		rs, _, err := Parse([]byte(text), "the.json", noSideFiles)
		if !errors.Is(err, gpuprof.ErrInput) || rs != nil {
			t.Errorf("%.60q: %v, want an input error", text, err)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// TestTruncatedAnywhere: a file cut at any byte is an error or, where the
// format has no end mark, holds fewer lines; it never crashes or reads garbage.
func TestTruncatedAnywhere(t *testing.T) {
	for _, name := range []string{"nvbench.json", "google.json", "pytest.json", "hyperfine.json", "bmf.json", "asv.json", "jmh.json", "aiperf.json", "guidellm.json", "github-custom.json", "github-data.js"} {
		whole, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		whole = bytes.TrimSpace(whole)
		for i := 0; i < len(whole); i += 1 + len(whole)/400 {
			if _, err := parseOne(string(whole[:i]), name, noSideFiles); !errors.Is(err, gpuprof.ErrInput) {
				t.Fatalf("%s cut at %d: %v", name, i, err)
			}
		}
	}
}

func TestSeveralDocuments(t *testing.T) {
	for name, join := range map[string]func(a, b string) string{
		"one after the other": func(a, b string) string { return a + b },
		"in an array":         func(a, b string) string { return "[" + a + "," + b + "]" },
		"with a byte mark":    func(a, b string) string { return "\xef\xbb\xbf" + a + "\n" + b },
	} {
		for file, want := range map[string]string{"pytest.json": "6+6", "google.json": "3+3", "nvbench.json": "40+40"} {
			text, _ := os.ReadFile(filepath.Join("testdata", file))
			r, err := parseOne(join(string(text), string(text)), filepath.Join("testdata", file), OS)
			if err != nil {
				t.Errorf("%s, %s: %v", name, file, err)
				continue
			}
			if got := brief(r)[0]; !strings.Contains(got, " "+want+" ") {
				t.Errorf("%s, %s: %s, want %s", name, file, got, want)
			}
			if v := r.Env["cpu"]; strings.Contains(v, ";") {
				t.Errorf("equal facts are joined: %s", v)
			}
		}
	}
	mixed := `{"machine_info":{"cpu":{"brand_raw":"A"}},"benchmarks":[{"name":"a","stats":{"data":[1]}}]}` + `{"machine_info":{"cpu":{"brand_raw":"B"}},"benchmarks":[{"name":"a","stats":{"data":[2]}}]}`
	r, err := parseOne(mixed, "x", noSideFiles)
	if err != nil || r.Env["cpu"] != "A; B" {
		t.Errorf("runs of two machines: %v %v", r, err)
	}
}

func TestGoBenchDetails(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
		env  map[string]string
	}{
		"several thread counts stay in the name": {"BenchmarkA 1 2 ns/op\nBenchmarkA-4 1 3 ns/op\n", []string{"A [s] 1 2e-09", "A-4 [s] 1 3e-09"}, map[string]string{}},
		"the same name in two packages": {"pkg: x/a\nBenchmarkA-4 1 2 ns/op\npkg: x/b\nBenchmarkA-4 1 3 ns/op\nBenchmarkB-4 1 3 ns/op\n",
			[]string{"x/a.A [s] 1 2e-09", "x/b.A [s] 1 3e-09", "B [s] 1 3e-09"}, map[string]string{"gomaxprocs": "4"}},
		"declared units": {"Unit widgets better=higher\nUnit ticks assume=exact\nBenchmarkA 1 2 widgets 3.5 ticks\n",
			[]string{"A:widgets [widgets] 1 2 higher", "A:ticks [ticks] 1 3.5 exact"}, map[string]string{}},
		"noise around": {"note: this is not config\nBenchmarkA\nBenchmarkA 1 2 ns/op\n--- BENCH: BenchmarkA\n    a_test.go:1: log\nok\n", []string{"A [s] 1 2e-09"}, map[string]string{}},
		"two machines": {"cpu: X\nBenchmarkA 1 2 ns/op\ncpu: Y\nBenchmarkA 1 2 ns/op\n", []string{"A [s] 1+1 2e-09"}, map[string]string{"cpu": "X; Y"}},
		"events": {`{"Action":"start","Package":"p"}` + "\n" + `{"Action":"output","Package":"p","Output":"goos: linux\n"}` + "\n" +
			`{"Action":"output","Package":"p","Output":"BenchmarkA-2 \t"}` + "\n" + `{"Action":"output","Package":"q","Output":"BenchmarkB-2 \t 5\t 7 ns/op\n"}` + "\n" +
			`{"Action":"output","Package":"p","Output":" 100\t 9.5 ns/op\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n",
			[]string{"A [s] 1 9.5e-09", "B [s] 1 7e-09"}, map[string]string{"goos": "linux", "gomaxprocs": "2"}},
	} {
		got, err := parseOne(c.text, "x", noSideFiles)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, brief(got)) + cmp.Diff(c.env, ownEnv(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	r, err := parseOne("BenchmarkA 1 2 ns/op\n--- FAIL: BenchmarkB\npanic: boom\n", "x", noSideFiles)
	if err != nil || len(r.Failed) != 2 {
		t.Errorf("failures: %v, %v", r, err)
	}
}

// A counter that is no number is an error that names it, however it is written;
// names that look like one are not touched.
func TestNotANumberOfACounter(t *testing.T) {
	const file = `{"context":{},"benchmarks":[{"name":"NaN Infinity \" nan","real_time":1,"third":2,"word":"x","label":"5","rate":%s}]}`
	for _, v := range []string{"NaN", "-Infinity", "null", "1e999", "-1e999", `"NaN"`, `"inf"`, "nan"} {
		_, _, err := Parse(fmt.Appendf(nil, file, v), "x", noSideFiles)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), `NaN Infinity " nan:rate is null, NaN or infinite`) {
			t.Errorf("%s: %v", v, err)
		}
	}
	rs, _, err := Parse(fmt.Appendf(nil, file, "3"), "x", noSideFiles)
	if err != nil || len(rs[0].Metrics) != 3 {
		t.Errorf("%+v, %v", rs, err)
	}
}

func TestGoogleMemory(t *testing.T) {
	r, err := parseOne(`{"context":{},"benchmarks":[{"name":"a","real_time":1,"time_unit":"s","allocs_per_iter":3,"max_bytes_used":512}]}`, "x", noSideFiles)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a [s] 1 1", "a:allocs_per_iter [] 1 3 exact", "a:max_bytes_used [B] 1 512 exact"}, brief(r)); d != "" {
		t.Error(d)
	}
}

func TestCompressed(t *testing.T) {
	whole, _ := os.ReadFile("testdata/pytest.json")
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, _ := zstd.NewWriter(&zs)
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := w.Write(whole); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, ok := range map[string]bool{put("a.json", gz.Bytes()): true, put("b.gz", zs.Bytes()): true, put("c", gz.Bytes()[:gz.Len()/2]): false, put("d", zs.Bytes()[:zs.Len()/2]): false} {
		text, err := OS(path)
		if err != nil {
			err = Failed(path, err)
		}
		if ok && (err != nil || !bytes.Equal(text, whole)) {
			t.Errorf("%s: %v", path, err)
		}
		if !ok && (!errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "damaged")) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "missing.json"), dir} {
		if _, _, err := Read(path, OS); !errors.Is(err, gpuprof.ErrUsage) || strings.Count(err.Error(), dir) != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestGoogleAggregatesOnly: the median stands for repetitions only if those were not written.
func TestGoogleAggregatesOnly(t *testing.T) {
	row := func(kind, real string) string {
		return `{"name":"a_` + kind + `","run_name":"a","run_type":"aggregate","aggregate_name":"` + kind + `","real_time":` + real + `,"cpu_time":` + real + `,"time_unit":"ms","items":5}`
	}
	made := row("mean", "3") + "," + row("median", "2") + "," + row("stddev", "1") + "," + row("cv", "0.5")
	one := `{"name":"a","run_name":"a","run_type":"iteration","real_time":7,"time_unit":"ms"}`
	for name, c := range map[string]struct {
		rows  string
		want  []string
		notes int
	}{
		"aggregates only": {made, []string{"a [s] 1 0.002", "a:cpu_time [s] 1 0.002", "a:items [] 1 5 exact"}, 1},
		"repetitions too": {made + "," + one, []string{"a [s] 1 0.007"}, 0},
		"an older name":   {`{"name":"b_median","aggregate_name":"median","real_time":4,"time_unit":"s"}`, []string{"b [s] 1 4"}, 1},
	} {
		got, err := parseOne(`{"context":{},"benchmarks":[`+c.rows+`]}`, "x", noSideFiles)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, brief(got)); d != "" || len(got.Warnings) != c.notes {
			t.Errorf("%s: %v\n%s", name, got.Warnings, d)
		}
	}
}

// TestHyperfineNames: a name given for all commands is told apart by the
// parameters, whose order may be another on the other side.
func TestHyperfineNames(t *testing.T) {
	r, err := parseOne(`{"results":[{"command":"prog","parameters":{"n":"20","mode":"fast"},"times":[1]},{"command":"prog","parameters":{"n":30,"mode":"slow"},"times":[2]},
		{"command":"sleep 0.1","parameters":{"t":"0.1"},"times":[3]},{"command":"same","times":[4]},{"command":"same","times":[5]},{"times":[6]}]}`, "x", noSideFiles)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"prog mode=fast n=20 [s] 1 1", "prog mode=slow n=30 [s] 1 2", "sleep 0.1 [s] 1 3", "same [s] 1 4", "same#2 [s] 1 5", "command 6 [s] 1 6"}
	if d := cmp.Diff(want, brief(r)); d != "" {
		t.Error(d)
	}
}

// TestDirections: what a name says of which way is better.
func TestDirections(t *testing.T) {
	for name, want := range map[string]bool{
		"items_per_second": true, "B/s": true, "hit_rate": true, "speedup": true, "GFLOPS": true, "dropout_items_per_second": true, "achieved_occupancy": true,
		"cache_miss_rate": false, "error_rate": false, "bank_conflict_rate": false, "allocs": false, "B/op": false,
	} {
		if guessDirection(name) == higherBetter != want {
			t.Errorf("%s: more is better %v, want %v", name, !want, want)
		}
	}
}
