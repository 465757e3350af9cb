//go:build !race

// What runs here are processes, as in bisect_test.go.

package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
)

// plantedWorkload is a repository whose program stands in for gpuprof: from a commit on the
// stage tensor_product of its workload takes a sixth longer and launches one kernel more.
type plantedWorkload struct {
	commits, culprit         int
	broken, refused, partial int // does not compile; does not know the workload; does not end its run
	stage                    string
	slower, launch           float64
}

func (p plantedWorkload) make(t *testing.T, dir string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join("testdata", "bisect", "standin.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	file := func(name, text string) {
		fmt.Fprintf(&b, "M 644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	for i := range p.commits + 1 {
		subject := fmt.Sprintf("commit %d", i)
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter t <t@t.invalid> %d +0000\ndata %d\n%s\n", i+1, 1_000_000_000+i, len(subject), subject)
		slower, launches := 0.0, 0.0
		if i >= p.culprit {
			slower, launches = p.slower, p.launch
		}
		text := fmt.Sprintf("package main\n\nconst slowStage, slower, extraLaunches = %q, %g, %g\nconst noWorkload, unfinished = %t, %t // %s\n",
			p.stage, slower, launches, i == p.refused, i == p.partial, subject)
		if i == p.broken {
			text += "func"
		}
		file("cmd/gpuprof/commit.go", text)
		if i == 0 {
			file("go.mod", "module standin\n\ngo 1.24\n")
			file("cmd/gpuprof/main.go", string(program))
		}
	}
	repo := filepath.Join(dir, "repo")
	fastImport(t, repo, b.String())
	return repo
}

// recordedRun is a run of the gallery as a file that the stand-in reads.
func recordedRun(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "gallery", "e3nn-csr.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	path := filepath.Join(dir, "run.json")
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// workloadSearch runs gpuprof bisect on a repository until it is not interrupted any more.
func workloadSearch(t *testing.T, p plantedWorkload, kills string, flags ...string) (s *bisect.Search, table string, times int) {
	t.Helper()
	dir := t.TempDir()
	repo, out := p.make(t, dir), filepath.Join(dir, "x.json")
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"TEMPLATE=" + recordedRun(t, dir), "COUNT=" + filepath.Join(dir, "count"), "KILLS=" + kills, "GOCACHE=" + strings.TrimSpace(string(cache)), `GOFLAGS=-trimpath "-ldflags=-s -w"`, "TMPDIR=" + t.TempDir()}
	args := append([]string{"bisect", fmt.Sprintf("HEAD~%d..main", p.commits), "e3nn", "--device", "host", "--quiet", "--force", "-o", out}, flags...)
	for {
		cmd := selfCommand(t, repo, args...)
		cmd.Env = append(cmd.Env, env...)
		said, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() == cli.ExitInterrupted && times < 100 {
			times++
			args = []string{"bisect", "--resume", "--quiet", "--force", "-o", out}
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = bisect.Decode(text, out); err != nil {
			t.Fatal(err)
		}
		return s, string(said), times
	}
}

// The commit that made a stage of a workload slower is found, and the stage is named,
// with commits among them that do not compile, do not know the workload and do not end
// their run; interrupted as well.
func TestBisectOfAWorkload(t *testing.T) {
	t.Parallel()
	for _, kills := range []string{"", "9"} {
		if kills == "" && !nightly {
			continue // by day the interrupted search alone, which has every assertion
		}
		t.Run("interrupted"+kills, func(t *testing.T) {
			t.Parallel()
			p := plantedWorkload{commits: 24, culprit: 10, broken: 9, refused: 11, partial: 12, stage: "tensor_product", slower: 0.17, launch: 1}
			s, said, times := workloadSearch(t, p, kills)
			o := s.Outcome
			// Commit 9 does not compile, so it may be the culprit as well as 10.
			if o.Found != bisect.Range || o.From != 9 || o.To != 10 || s.Metric != "step" {
				t.Fatalf("found %s in %s, commits %d to %d\n%s", o.Found, s.Metric, o.From, o.To, said)
			}
			if o.Stage == nil || o.Stage.Name != "step/tensor_product" || float64(o.Stage.New/o.Stage.Old) < 1.1 {
				t.Errorf("stage %+v", o.Stage)
			}
			if len(o.Also) != 1 || o.Also[0].Name != "launches" || o.Also[0].New-o.Also[0].Old != 1 {
				t.Errorf("counters %+v", o.Also)
			}
			for _, want := range []string{"range found", `"commit 10"`, "tensor_product +1", "launches 8 -> 9"} {
				if !strings.Contains(said, want) {
					t.Errorf("%q is missing in:\n%s", want, said)
				}
			}
			if kills != "" && times < 3 {
				t.Errorf("interrupted %d times", times)
			}
		})
	}
}
