package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
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
		return gpuprof.Errorf(gpuprof.ErrInput, "building with %q in %s: %w; correct --build", line, dir, err)
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
	cmd := exec.CommandContext(c.app.ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, child.Environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopDelay
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	err := cmd.Start()
	if err == nil {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err = <-ended:
		case <-c.hurry:
			_ = cmd.Process.Kill() // it may have ended just now
			return nil, errInterrupted
		}
	}
	if c.app.ctx.Err() != nil {
		return nil, errInterrupted
	}
	return out.Bytes(), withWords(err, words.String())
}

// withWords adds to how a program ended the last of what it said.
func withWords(err error, words string) error {
	text := sentenceOf(words)
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

// worktree checks a revision of the repository at top out into dir. remove is
// to be called also after an error: an interrupted git may have left something.
func (c children) worktree(top, ref, dir string) (remove func(), err error) {
	commit, err := c.capture(top, "git", "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if errors.Is(err, errInterrupted) {
		return func() {}, err
	}
	if err != nil || strings.HasPrefix(ref, "-") { // git would take that for a flag
		return func() {}, noRevision(ref, top, err)
	}
	remove = func() {
		cmd := exec.CommandContext(context.WithoutCancel(c.app.ctx), "git", "worktree", "remove", "--force", "--force", dir)
		cmd.Dir, cmd.Env = top, child.Environ()
		// A Ctrl-C of the terminal goes to the whole group.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		_ = cmd.Run() // what cannot be removed, git worktree prune removes
	}
	if err := c.command(top, "git", "worktree", "add", "--detach", "--force", dir, strings.TrimSpace(string(commit))); err != nil {
		return remove, gpuprof.Errorf(gpuprof.ErrInput, "checking out %s: %w; see git worktree list", ref, err)
	}
	return remove, nil
}
