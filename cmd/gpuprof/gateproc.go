package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// children runs the programs that a gate needs: git, builds, the sides. After
// the first signal the one that is running may end in order; the second does not
// wait for it. Neither keeps the gate from removing what was made for it: a
// checkout that stays behind stays in the user's list of worktrees.
type children struct {
	app   *app
	hurry <-chan struct{} // closed by the second signal
}

// newChildren counts signals until done is called.
func newChildren(a *app) (run children, done func()) {
	// The first of them ends a.ctx as well, see main.
	signals, hurry, over := make(chan os.Signal, 8), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, endSignals()...)
	go func() {
		for range 2 {
			select {
			case <-signals:
			case <-over:
				return
			}
		}
		close(hurry)
	}()
	return children{a, hurry}, func() {
		signal.Stop(signals)
		close(over)
	}
}

func (c children) shell(dir, line string) error {
	if err := c.command(dir, "sh", "-c", line); err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "building with %q in %s: %w", document.MaskText(line), dir, err).WithFix("correct --build")
	}
	return nil
}

// command runs a program for its effect; its words come back in the error.
func (c children) command(dir string, args ...string) error {
	_, err := c.capture(dir, args...)
	return err
}

// capture runs a program for what it prints.
func (c children) capture(dir string, args ...string) ([]byte, error) {
	return c.within(0, dir, args...)
}

// within runs a program for what it prints, and ends it after a limit, 0 for none.
func (c children) within(limit time.Duration, dir string, args ...string) ([]byte, error) {
	out, words, err := child.Command{Args: args, Dir: dir, Limit: limit, Hurry: c.hurry}.Run(c.app.ctx)
	switch {
	case c.app.ctx.Err() != nil || errors.Is(err, child.ErrHurried):
		return nil, errInterrupted
	case errors.Is(err, child.ErrLong):
		return nil, fmt.Errorf("%w after %s", err, limit.Round(100*time.Millisecond))
	case errors.Is(err, child.ErrMuch):
		return nil, fmt.Errorf("%w: %s of standard output are read at most (%s sets how much memory reading may take, now %s)",
			err, outside.MemoryText(child.MostOutput()), outside.MemoryVariable, outside.MemoryText(outside.DocumentMemory()))
	}
	return out, withWords(err, words)
}

// withWords adds to how a program ended the last of what it said.
func withWords(err error, words string) error {
	text := document.MaskLinks(sentenceOf(words))
	if err == nil || text == "" {
		return err
	}
	if len(text) > 400 {
		text = "… " + text[len(text)-400:]
	}
	return fmt.Errorf("%w: %s", err, text)
}

// gitTop is the present checkout, and where in it the present folder is. (git
// knows that also where a symbolic link led here.) Each is asked for alone: a
// folder's name may hold a line break. ref is what is looked for in it.
func (c children) gitTop(ref string) (top, prefix string, err error) {
	for _, ask := range []struct {
		flag string
		into *string
	}{{"--show-toplevel", &top}, {"--show-prefix", &prefix}} {
		out, err := c.capture("", "git", "rev-parse", ask.flag)
		if errors.Is(err, errInterrupted) {
			return "", "", err
		}
		if err != nil {
			return "", "", noRevision(ref, "", err)
		}
		*ask.into = strings.TrimSuffix(string(out), "\n")
	}
	return top, prefix, nil
}

// unchanged says that the checkout at top is at a revision and differs from it
// in no file that git knows.
func (c children) unchanged(top, ref string) bool {
	at, err := c.capture(top, "git", "rev-parse", "HEAD", ref+"^{commit}")
	if err != nil {
		return false
	}
	if head, commit, _ := strings.Cut(strings.TrimSpace(string(at)), "\n"); head != commit {
		return false
	}
	changes, err := c.capture(top, "git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
	return err == nil && len(changes) == 0
}

// worktree checks a revision of the repository at top out into dir, which is in
// the scratch folder, whose end removes it.
func (c children) worktree(scratch *child.Scratch, top, ref, dir string) error {
	if strings.HasPrefix(ref, "-") { // git would take that for a flag
		return noRevision(ref, top, nil)
	}
	commit, err := c.capture(top, "git", "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil {
		return noRevision(ref, top, err)
	}
	if err := scratch.Tree(top, dir); err != nil {
		return gpuprof.Errorf(nil, "noting the checkout %s: %w", dir, err).WithFix("check TMPDIR")
	}
	if err := c.command(top, "git", "worktree", "add", "--detach", "--force", dir, strings.TrimSpace(string(commit))); err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "checking out %s: %w", ref, err).WithFix("see git worktree list")
	}
	return c.submodules(top, dir)
}

// submodules fills the checkout's submodules from those of the present one, as they
// were at the checkout's revision. What is not there now stays empty in both.
func (c children) submodules(top, tree string) error {
	list, err := c.capture(tree, "git", "ls-files", "-z", "--stage")
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "listing the submodules of %s: %w", tree, err)
	}
	for entry := range strings.SplitSeq(string(list), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		f := strings.Fields(about)
		if len(f) != 3 || f[0] != "160000" {
			continue
		}
		from, to := filepath.Join(top, path), filepath.Join(tree, path)
		if _, err := os.Lstat(filepath.Join(from, ".git")); err != nil {
			continue
		}
		err := c.command(top, "git", "clone", "--quiet", "--shared", "--no-checkout", "--", from, to)
		if err == nil {
			err = c.command(to, "git", "checkout", "--quiet", "--detach", f[1])
		}
		if err != nil {
			return gpuprof.Errorf(gpuprof.ErrInput, "checking out the submodule %s at %.12s: %w", path, f[1], err).WithFix("fetch that commit with git -C %s fetch", path)
		}
		if err := c.submodules(from, to); err != nil {
			return err
		}
	}
	return nil
}
