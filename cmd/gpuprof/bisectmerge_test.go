//go:build !race

// What runs here are processes, as in bisect_test.go.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/bisect"
)

// branchy is a repository in which a branch of four commits that began at main 1 was merged
// behind main 6: main 0 to 6, merge, main 8 to 11. slow says of a commit whether the step
// takes 6 % longer there.
func branchy(t *testing.T, slow func(subject string) bool) string {
	t.Helper()
	var b strings.Builder
	commit := func(branch string, mark, from, merges int, subject string) {
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter t <t@t.invalid> %d +0000\ndata %d\n%s\n", branch, mark, 1_000_000_000+mark, len(subject), subject)
		if from > 0 {
			fmt.Fprintf(&b, "from :%d\n", from)
		}
		if merges > 0 {
			fmt.Fprintf(&b, "merge :%d\n", merges)
		}
		level := "100000\n"
		if slow(subject) {
			level = "106000\n"
		}
		fmt.Fprintf(&b, "M 644 inline built\ndata %d\n%s\nM 644 inline about\ndata %d\n%s\n", len(level), level, len(subject), subject)
		if mark == 1 {
			fmt.Fprintf(&b, "M 755 inline bench\ndata %d\n%s\n", len(noisySteps), noisySteps)
		}
	}
	for i := range 12 {
		if i == 7 {
			commit("main", 8, 7, 104, "merge")
		} else {
			commit("main", i+1, i, 0, fmt.Sprint("main ", i))
		}
		if i == 6 { // the branch's commits are written late, and began early
			for k := range 4 {
				from := 100 + k
				if k == 0 {
					from = 2
				}
				commit("side", 101+k, from, 0, fmt.Sprint("side ", k+1))
			}
		}
	}
	repo := filepath.Join(t.TempDir(), "repo")
	fastImport(t, repo, b.String())
	return repo
}

// A commit of main that a branch beside it does not have is found, and not the merge in
// which it meets the branch; a commit of the branch is found behind its merge.
func TestBisectOfBranches(t *testing.T) {
	t.Parallel()
	number := func(subject, branch string) int {
		n := -1
		if _, err := fmt.Sscanf(subject, branch+" %d", &n); err != nil {
			return -1
		}
		return n
	}
	for _, tt := range []struct {
		culprit string
		merge   bool // is named first
		flags   []string
		slow    func(string) bool
	}{
		{"main 4", false, []string{"--all-parents"}, func(s string) bool { return s == "merge" || number(s, "main") >= 4 }},
		{"main 4", false, nil, func(s string) bool { return s == "merge" || number(s, "main") >= 4 }},
		{"side 3", true, []string{"--all-parents"}, func(s string) bool { return s == "merge" || number(s, "main") >= 8 || number(s, "side") >= 3 }},
		{"merge", false, nil, func(s string) bool { return s == "merge" || number(s, "main") >= 8 || number(s, "side") >= 3 }},
		{"merge", true, []string{"--all-parents"}, func(s string) bool { return s == "merge" || number(s, "main") >= 8 }},
	} {
		t.Run(fmt.Sprint(tt.culprit, tt.flags), func(t *testing.T) {
			t.Parallel()
			repo := branchy(t, tt.slow)
			out := filepath.Join(filepath.Dir(repo), "x.json")
			cmd := selfCommand(t, repo, append(append([]string{"bisect", "HEAD~11..main", "--metric", "Step", "-o", out}, tt.flags...), "--", "./bench")...)
			cmd.Env = append(cmd.Env, "COUNT="+filepath.Join(filepath.Dir(repo), "count"))
			said, err := cmd.CombinedOutput()
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
			if first := len(s.Before) == 1 && s.Before[0].Commit.Subject == "merge"; first != tt.merge {
				t.Errorf("before: %+v", s.Before)
			}
			if tt.culprit == "merge" && tt.merge {
				if s.Outcome.Found != bisect.Nothing || !strings.Contains(string(said), "[nothing to find]") || !strings.Contains(string(said), "In the merged branch alone") {
					t.Errorf("found %s\n%s", s.Outcome.Found, said)
				}
				return
			}
			if got := s.At(s.Outcome.To).Subject; s.Outcome.Found != bisect.Culprit || got != tt.culprit {
				t.Errorf("found %s %q\n%s", s.Outcome.Found, got, said)
			}
			if tt.culprit == "merge" && !strings.Contains(string(said), "git merge-base") {
				t.Errorf("the merged branch is not pointed at:\n%s", said)
			}
		})
	}
}

// A program that fails now and then is measured again: neither the search ends nor is a
// commit given up that ran before.
func TestBisectOfAProgramThatFailsNowAndThen(t *testing.T) {
	t.Parallel()
	p := plantedCommits{dir: t.TempDir(), commits: 64, culprit: 23, silent: -1}
	s, _ := searchOf(t, p.make(t), []string{"FAILS=11"}, false)
	if o := s.Outcome; o.Found != bisect.Culprit || o.To != 23 || len(s.Failed) > 0 {
		t.Errorf("found %s, commits %d to %d; %v", o.Found, o.From, o.To, s.Failed)
	}
}
