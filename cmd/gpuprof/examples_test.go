//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
)

// helpExamples collects the example lines of every verb's help text.
func helpExamples(t *testing.T) []string {
	t.Helper()
	a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}
	var c grammar
	k, _, err := newParser(a, &c)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, verb := range k.Model.Children {
		if verb.Hidden || slices.Contains([]string{commandline.RunProgramVerb, commandline.TuneProgramVerb, "run watch", "run record"}, verb.Name) { // a script test runs programs
			continue
		}
		n := len(out)
		for line := range strings.Lines(verb.Detail) {
			if rest, ok := strings.CutPrefix(line, "    gpuprof "); ok && !strings.Contains(rest, " -- ") && rest != "doctor --bench\n" { // a script test runs programs, and a GPU is not there
				out = append(out, strings.TrimSpace(rest))
			}
		}
		if len(out) == n {
			t.Errorf("the help of gpuprof %s has no example", verb.Name)
		}
	}
	return out
}

// The help of a verb has the command that the first screen proposes for it, and its form in a usage line.
func TestHelpBeginsWithTheJobs(t *testing.T) {
	t.Parallel()
	printed := func(args ...string) string {
		var out bytes.Buffer
		gpuprofRan(t, &out, io.Discard, args...)
		return out.String()
	}
	jobs := regexp.MustCompile(`(?m)gpuprof (\w+) .*-.*$`).FindAllStringSubmatch(printed(), 5)
	if len(jobs) != 5 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, job := range jobs {
		help := printed("help", job[1])
		if !strings.Contains(help, "\n    "+job[0]) {
			t.Errorf("gpuprof help %s has no example %q:\n%s", job[1], job[0], help)
		}
		if strings.Contains(job[0], " -- ") && !regexp.MustCompile(`(?m)^(Usage:)? +gpuprof `+job[1]+` .*-- CMD ARG`).MatchString(help) {
			t.Errorf("gpuprof help %s has no usage with -- CMD:\n%s", job[1], help)
		}
	}
}

func TestHelpExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// What the examples name is there; a plain file under a compressed name
	// is read as what it is.
	for name, from := range map[string]string{
		"vectors.json": "e3nn/vectors.json", "snapshot.pickle": "memory/clean.pickle.gz", "trace.json.gz": "traces/item-fires.json",
		"rank0.json.gz": "traces/exposed-comm-fires.json", "rank1.json.gz": "traces/exposed-comm-quiet.json",
		"search.json": "gallery/bisect.json", "before.json.gz": "traces/dataloader-stall-fires.json", "after.json.gz": "traces/dataloader-stall-quiet.json",
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sixProcesses(t, dir)
	twoChecks(t, dir)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(server.Close)
	for _, example := range helpExamples(t) {
		args := strings.Fields(strings.ReplaceAll(example, "http://localhost:4040", server.URL)) // of a profile store
		// The examples show what people type; a smaller problem and fewer
		// samples keep the test short without changing what is exercised.
		checks := strings.HasPrefix(example, "run --check")
		measures := args[0] == "run" && !checks
		if measures && !strings.Contains(example, "--samples") {
			args = append(args, "--samples", "10")
		}
		if measures { // the automatic one goes on while a machine is noisy
			args = append(args, "--warmup", "5")
		}
		if measures || checks && !strings.Contains(example, "--vectors") {
			args = append(args, "--set", "batch=4", "--set", "edges=40")
		}
		t.Run(example, func(t *testing.T) {
			cmd := selfCommand(t, dir, args...)
			if args[0] == "pprof" && !strings.Contains(example, "-top") {
				tryPages(t, cmd)
				return
			}
			out, err := cmd.CombinedOutput()
			judges := args[0] == "gate" || args[0] == "compare" || args[0] == "fleet"
			if judges && (cmd.ProcessState.ExitCode() == cli.ExitRegression || cmd.ProcessState.ExitCode() == cli.ExitInconclusive) {
				return // a verdict, as noise has it, is no failure of the command
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// sixProcesses leaves the results that compare, gate and baseline speak of.
func sixProcesses(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{
		{"run", "e3nn", "--set", "batch=4", "--set", "edges=40", "--warmup", "5", "--samples", "10", "--runs", "6", "-o", "old.json", "-o", "new.json"},
		{"run", "e3nn", "--set", "batch=4", "--set", "edges=40", "--warmup", "5", "--samples", "10", "--runs", "6", "-o", "six.json", "-o", "job/"},
		{"history", "baseline", "add", "old.json"},
	} {
		cmd := selfCommand(t, dir, args...)
		cmd.Env = append(cmd.Env, "GPUPROF_RANK=0", "GPUPROF_WORLD=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// twoChecks leaves what doctor --bench wrote on two nodes, twice.
func twoChecks(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"check", "check-again"} {
		if err := os.Rename(left(t, map[int]float64{1: 4e12, 2: 4.01e12}), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

var pagesAddress = regexp.MustCompile(`http://\S+`)

// tryPages waits for pprof's pages, fetches one and ends them as Ctrl-C does.
func tryPages(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	lines := bufio.NewScanner(io.TeeReader(stderr, &said))
	url := ""
	for url == "" && lines.Scan() {
		url = pagesAddress.FindString(lines.Text())
	}
	if url == "" {
		t.Fatalf("no address was printed: %s", &said)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.GiveUp)
	defer cancel()
	if code := fetchPage(ctx, t, url+"/top"); code != http.StatusOK {
		t.Errorf("%s/top answers %d", url, code)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after the interrupt: %v\n%s", err, &said)
	}
}

// fetchPage tries until the server listens; pprof prints the address first.
func fetchPage(ctx context.Context, t *testing.T, url string) int {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			return resp.StatusCode
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Every verb's help is printed on standard output with exit code 0.
func TestEveryVerbHasHelp(t *testing.T) {
	var c grammar
	a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}
	k, _, err := newParser(a, &c)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range k.Model.Children {
		if verb.Type != kong.CommandNode || verb.Hidden {
			continue
		}
		var stdout, stderr, same bytes.Buffer
		if code := runCommand(t.Context(), &wired, append(strings.Fields(verb.Name), "--help"), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%s --help: exit code %d, standard error %q", verb.Name, code, &stderr)
		}
		if code := runCommand(t.Context(), &wired, append([]string{"help"}, strings.Fields(verb.Name)...), &same, &stderr); code != 0 || same.String() != stdout.String() {
			t.Errorf("help %s is not %[1]s --help: exit code %d, it prints %q", verb.Name, code, &same)
		}
		if !strings.Contains(stdout.String(), "Usage: gpuprof "+strings.TrimSuffix(verb.Name, " --")) || !strings.Contains(stdout.String(), "Examples:") {
			t.Errorf("%s --help prints %q", verb.Name, &stdout)
		}
	}
}
