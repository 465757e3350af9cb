//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
)

// plantedCommits is a repository in which a commit makes a step 6 % slower. The step
// time is what the script prints, with made noise, and no time is measured.
type plantedCommits struct {
	dir              string
	commits, culprit int
	broken           []int // do not build
	silent           int   // prints no result
	merge            int
}

// noisySteps prints a step time about the level that was built. Where KILLS is set, every
// so many processes it interrupts gpuprof; where FAILS is, three running of every so many fail in a checkout in which one ran.
const noisySteps = `#!/bin/sh
n=$(($(cat "$COUNT" 2>/dev/null || echo 0) + 1))
echo $n >"$COUNT"
if [ -n "$KILLS" ] && [ $n -gt 36 ] && [ $((n % KILLS)) = 0 ]; then kill -INT $PPID; fi
[ -n "$FAILS" ] && [ -e ran ] && [ $((n % FAILS)) -lt 3 ] && exit 1
[ -z "$FAILS" ] || echo >ran
read level <built
[ "$level" = silent ] && exit 0
echo "BenchmarkStep 100 $((level + (n * 7919 + n * n * 31) % 1501 - 750)) ns/op"
`

func (p plantedCommits) make(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	file := func(mode, name, text string) {
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, name, len(text), text)
	}
	commit := func(branch string, mark int, subject string) {
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter t <t@t.invalid> %d +0000\ndata %d\n%s\n", branch, mark, 1_000_000_000+mark, len(subject), subject)
	}
	for i := range p.commits + 1 {
		if p.merge > 0 && i == p.merge {
			commit("side", 1000, "side")
			fmt.Fprintf(&b, "from :%d\n", i-1)
			file("644", "side", "x\n")
		}
		commit("main", i+1, fmt.Sprintf("commit %d", i))
		if p.merge > 0 && i == p.merge {
			b.WriteString("merge :1000\n")
		}
		level := "100000\n"
		if i >= p.culprit {
			level = "106000\n"
		}
		if i == p.silent {
			level = "silent\n"
		}
		build := "cp level built\n"
		for _, bad := range p.broken {
			if i == bad {
				build = "echo no such type >&2; exit 1\n"
			}
		}
		file("644", "level", level)
		file("644", "build.sh", build)
		if i == 0 {
			file("755", "bench", noisySteps)
		}
	}
	repo := filepath.Join(p.dir, "repo")
	fastImport(t, repo, b.String())
	return repo
}

// fastImport makes a repository of a stream of git fast-import, with main checked out.
func fastImport(t *testing.T, repo, stream string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main", repo}, {"-C", repo, "fast-import", "--quiet"}, {"-C", repo, "checkout", "-q", "main"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Stdin = strings.NewReader(stream)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// searchOf runs gpuprof bisect until it is not interrupted any more, and reads what it wrote.
func searchOf(t *testing.T, repo string, env []string, interrupts bool) (s *bisect.Search, times int) {
	t.Helper()
	out := filepath.Join(filepath.Dir(repo), "x.json")
	count := filepath.Join(filepath.Dir(repo), "count")
	scratch := t.TempDir()
	args := []string{"bisect", fmt.Sprintf("HEAD~%d..main", 64), "--metric", "Step", "--build", "sh build.sh", "--force", "-o", out, "--", "./bench"}
	for {
		cmd := selfCommand(t, repo, args...)
		cmd.Env = append(cmd.Env, append(env, "COUNT="+count, "TMPDIR="+scratch)...)
		said, err := cmd.CombinedOutput()
		code := cmd.ProcessState.ExitCode()
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Fatalf("left in TMPDIR: %v, %v", left, err)
		}
		list := exec.CommandContext(t.Context(), "git", "-C", repo, "worktree", "list")
		if trees, err := list.Output(); err != nil || strings.Count(string(trees), "\n") != 1 {
			t.Fatalf("the worktrees that are left: %s, %v", trees, err)
		}
		if interrupts && code == cli.ExitInterrupted && times < 100 {
			times++
			args = []string{"bisect", "--resume", "--force", "-o", out}
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		s, err := bisect.Decode(text, out)
		if err != nil {
			t.Fatal(err)
		}
		return s, times
	}
}

// Of 64 commits the planted one is found, with three that do not build, one without a
// result and a merge among them; interrupted again and again it is found as well.
func TestBisectFindsThePlantedCommit(t *testing.T) {
	t.Parallel()
	for _, kills := range []string{"", "KILLS=7"} {
		t.Run("interrupted"+kills, func(t *testing.T) {
			t.Parallel()
			p := plantedCommits{dir: t.TempDir(), commits: 64, culprit: 41, broken: []int{30, 31, 39}, silent: 32, merge: 44}
			s, times := searchOf(t, p.make(t), []string{kills}, kills != "")
			o := s.Outcome
			if o.Found != bisect.Culprit || o.To != p.culprit || s.At(o.To).Subject != "commit 41" {
				t.Errorf("found %s, commits %d to %d", o.Found, o.From, o.To)
			}
			if n := len(s.Builds); kills == "" && n > 16 {
				t.Errorf("%d builds", n)
			}
			if kills != "" && times < 3 {
				t.Errorf("interrupted %d times", times)
			}
			if !s.At(44).Merge || s.At(43).Merge {
				t.Error("the merge is not known as one")
			}
		})
	}
}

// A culprit behind commits that do not build is a range.
func TestBisectNamesARange(t *testing.T) {
	t.Parallel()
	p := plantedCommits{dir: t.TempDir(), commits: 64, culprit: 33, broken: []int{31, 33}, silent: 32}
	s, _ := searchOf(t, p.make(t), nil, false)
	if o := s.Outcome; o.Found != bisect.Range || o.From != 31 || o.To != 34 || len(s.Failed) != 3 {
		t.Errorf("found %s, commits %d to %d; not measurable: %v", o.Found, o.From, o.To, s.Failed)
	}
}
