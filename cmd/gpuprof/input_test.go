//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// peakOf runs a program and says how much memory it had at most, by the system's
// account of the child: bytes.
const peakOf = `import resource, subprocess, sys
done = subprocess.run(["gpuprof", *sys.argv[2:]], executable=sys.argv[1], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
print(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.returncode, done.stderr.decode()[-600:].strip())`

// bomb writes a text of many parts, compressed: a member of gzip for the beginning,
// one and the same as often as it takes, and one for the end.
func bomb(t *testing.T, name, open, one, end string, size int) string {
	t.Helper()
	const each = 1 << 20
	many := strings.Repeat(one, max(1, min(each, size)/len(one)))
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20) // it keeps the first error
	_, _ = w.Write(member(t, open))
	packed := member(t, many)
	for n := 0; n < size; n += len(many) {
		_, _ = w.Write(packed)
	}
	_, _ = w.Write(member(t, end))
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// member is a whole file of gzip, of which any number may follow each other in one.
func member(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inOne is a file of one member.
func inOne(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, member(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// No file makes a reader take more memory than the documents say: 512 MB, and for
// the traces of a job GPUPROF_MEMORY.
func TestPeakMemory(t *testing.T) {
	t.Parallel()
	const most = 512e6
	const over, much = 100 << 20, 40 << 20 // of text, of which 80 MiB are read
	run := `{"schema_version":"1.1.0","tool":{"name":"gpuprof"},"workload":"e3nn",`
	event := `{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1},` + "\n"
	small := filepath.Join(t.TempDir(), "small.json")
	if err := os.WriteFile(small, []byte("BenchmarkA 1 2 ns/op\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := func(name, open, one, end string, size int) string { return bomb(t, name, open, one, end, size) }
	fits := b("run.json.gz", run+`"step":{"runs":[[0`, `,0.00833712345678901`, `]]}}`, 78<<20)
	cases := map[string]struct {
		args []string
		code int
	}{
		"samples":          {[]string{"report", b("run.json.gz", run+`"step":{"runs":[[0`, `,0.1`, `]]}}`, over)}, cli.ExitFailed},
		"short samples":    {[]string{"report", b("run.json.gz", run+`"step":{"runs":[[0`, `,0`, `]]}}`, much)}, cli.ExitFailed},
		"samples that fit": {[]string{"report", fits}, cli.ExitOK},
		"and compare":      {[]string{"compare", fits, small}, cli.ExitInconclusive},
		"empty stages":     {[]string{"report", b("run.json.gz", run+`"stages":[{}`, `,{}`, `]}`, much)}, cli.ExitFailed},
		"runs of nothing":  {[]string{"report", b("run.json.gz", `[{}`, `,{}`, `]`, much)}, cli.ExitFailed},
		"one member":       {[]string{"report", inOne(t, "run.json.gz", `[{}`+strings.Repeat(`,{}`, much/3)+`]`)}, cli.ExitFailed},
		"one text":         {[]string{"report", b("run.json.gz", run+`"preset":"`, `aaaa`, `"}`, 75<<20)}, cli.ExitFailed},
		"findings":         {[]string{"report", b("a.json.gz", `{"schema_version":"2.0.0","step_source":"","findings":[{}`, `,{}`, `]}`, much)}, cli.ExitFailed},
		"journal":          {[]string{"report", b("t.json.gz", `{"schema_version":"2.0.0","kind":"tune","journal":[{}`, `,{}`, `]}`, much)}, cli.ExitFailed},
		"commas":           {[]string{"compare", b("c.gz", `[`, `,`, ``, over), small}, cli.ExitFailed},
		"lists":            {[]string{"compare", b("c.gz", `[[]`, `,[]`, `]`, much), small}, cli.ExitFailed},
		"documents":        {[]string{"compare", b("c.gz", ``, `{}`, ``, much), small}, cli.ExitFailed},
		"brackets":         {[]string{"compare", b("c.gz", ``, `[`, ``, much), small}, cli.ExitFailed},
		"Google rows":      {[]string{"compare", small, b("c.gz", `{"context":{},"benchmarks":[{"name":"a","real_time":1}`, `,{"name":"b"}`, `]}`, much)}, cli.ExitFailed},
		"Go lines":         {[]string{"compare", small, b("c.gz", ``, "BenchmarkA 1 2 ns/op 3 B/op 4 a/op\n", ``, much)}, cli.ExitFailed},
		"baseline":         {[]string{"gate", b("b.json.gz", `{"schema_version":"1.0.0","kind": "baseline","sessions":[{}`, `,{}`, `]}`, much), small}, cli.ExitFailed},
		"zero":             {[]string{"gate", "/dev/zero", small}, cli.ExitFailed},
		"vectors":          {[]string{"run", "--check", "e3nn", "--device", "host", "--vectors", b("v.gz", `{"cases":[{"kind":"x","x":[0`, `,0`, `]}]}`, much)}, cli.ExitFailed},
		"profile":          {[]string{"pprof", b("p.pb.gz", ``, "\x12\x00", ``, much), "-top"}, cli.ExitFailed},
		"resume":           {[]string{"tune", "e3nn", "--device", "host", "--resume", "/dev/zero"}, cli.ExitUsage}, // it is to be written again, so a device is not even read
		"a trace of zeros": {[]string{"analyze", "/dev/zero"}, cli.ExitFailed},
		"events":           {[]string{"analyze", b("t.json.gz", `{"traceEvents":[`, event, `{}]}`, 300<<20)}, cli.ExitOK},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		if !nightly && i%2 != 0 {
			continue // by day every other kind of file
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("python3", append([]string{"-c", peakOf, selfPath(t)}, c.args...)...)
			cmd.Env = append(os.Environ(), "GOGC=100") // as a user has it
			if name == "events" {
				cmd.Env = append(cmd.Env, outside.MemoryVariable+"=512MiB")
			}
			out, err := cmd.CombinedOutput()
			words := strings.SplitN(string(out), " ", 3)
			if err != nil || len(words) < 2 {
				t.Fatalf("%v: %s", err, out)
			}
			peak, err := strconv.Atoi(words[0])
			if err != nil || peak < 1<<20 {
				t.Fatalf("%q: %v", out, err)
			}
			t.Logf("%.0f MB, %s", float64(peak)/1e6, strings.TrimSpace(words[len(words)-1]))
			if peak > most {
				t.Errorf("%d MB at most", peak/1e6)
			}
			if code := strings.TrimSpace(words[1]); code != strconv.Itoa(c.code) {
				t.Errorf("exit code %s, want %d: %s", code, c.code, words[len(words)-1])
			}
		})
	}
}
