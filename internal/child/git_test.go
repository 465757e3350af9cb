package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitRunsNoProgram: whatever the configuration of a repository names, the git commands that
// gpuprof uses start none of it, and a filter still makes the files that the user has.
func TestGitRunsNoProgram(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >>"+ran+"\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(dir, "repo")
	plain := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v, %s", args, err, out)
		}
	}
	if err := os.Mkdir(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	plain("init", "-q", "-b", "main")
	plain("config", "user.name", "t")
	plain("config", "user.email", "t@t.invalid")
	plain("config", "filter.shout.smudge", "tr a-z A-Z")
	for name, text := range map[string]string{".gitattributes": "text filter=shout diff=named\n", "text": "words\n"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain("add", ".")
	plain("commit", "-q", "-m", "one")
	plain("commit", "-q", "--allow-empty", "-m", "two")
	hooks := filepath.Join(repo, ".git", "hooks")
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"} {
		if err := os.MkdirAll(hooks, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"core.hooksPath": hooks, "core.fsmonitor": program, "core.pager": program, "core.editor": program, "gpg.program": program, "log.showSignature": "true",
		"diff.external": program, "diff.named.textconv": program, "diff.named.command": program, "core.sshCommand": program, "credential.helper": program, "gc.auto": "1",
		"core.askPass": program, "submodule.recurse": "true", "interactive.diffFilter": program, "uploadpack.packObjectsHook": program,
	} {
		plain("config", key, value)
	}
	if err := os.Remove(ran); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	git := func(at string, args ...string) string {
		t.Helper()
		out, words, err := Git(at, args...).Run(t.Context())
		if err != nil {
			t.Fatalf("git %v: %v, %s", args, err, words)
		}
		return string(out)
	}
	tree, copied := filepath.Join(dir, "tree"), filepath.Join(dir, "copied")
	git(repo, "worktree", "add", "--detach", "--force", tree, "HEAD~1")
	git(tree, "checkout", "--quiet", "--detach", "--force", "main")
	git(tree, "clean", "-ffdxq")
	git(repo, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
	git(tree, "ls-files", "-z", "--stage")
	git(repo, "clone", "--quiet", "--template=", "--shared", "--no-checkout", "--", repo, copied)
	git(copied, "checkout", "--quiet", "--detach", "HEAD")
	if subjects := git(repo, "log", "--no-color", "--no-show-signature", "--format=%s"); subjects != "two\none\n" {
		t.Errorf("%q", subjects)
	}
	git(repo, "show", "--no-patch", "--format=%ct", "HEAD")
	if text, err := os.ReadFile(filepath.Join(tree, "text")); err != nil || string(text) != "WORDS\n" {
		t.Errorf("a filtered file holds %q, %v", text, err)
	}
	git(repo, "worktree", "remove", "--force", "--force", tree)
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("git started programs:\n%s", said)
	}
	// The programs would have run otherwise.
	plain("worktree", "add", "--quiet", "--detach", tree, "HEAD~1")
	if said, err := os.ReadFile(ran); err != nil || !strings.Contains(string(said), "post-checkout") {
		t.Errorf("without the settings git started %q, %v", said, err)
	}
}
