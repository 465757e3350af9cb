package judge

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Children runs the child processes of a gate: git, builds and the compared programs. At the first signal the running
// program may shut down; a second signal kills it. The temporary files are removed in both cases, because git lists a
// checkout among the user's worktrees until it is removed.
type Children struct {
	App     *cli.App
	hurry   <-chan struct{} // closed at the second signal
	Devices bool            // the processes measure different devices (gpuprof run --devices)
}

// NewChildren starts to handle signals for the processes that the returned Children runs. done stops that.
func NewChildren(a *cli.App) (run Children, done func()) {
	// The first signal cancels a.Ctx too, see main.
	signals, hurry, over := make(chan os.Signal, 8), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, cli.EndSignals()...)
	go func() {
		cli.EndAtFirst(signals, over, func() {}, func() <-chan time.Time { return time.After(cli.SameMoment) }, func() {
			select {
			case <-signals:
				close(hurry)
			case <-over:
			}
		})
	}()
	return Children{App: a, hurry: hurry}, func() {
		signal.Stop(signals)
		close(over)
	}
}

// Shell runs a build command in dir.
func (c Children) Shell(dir, line string) error {
	if err := c.Command(dir, "sh", "-c", line); err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "building with %q in %s: %w", document.MaskText(line), dir, err).WithFix("correct --build")
	}
	return nil
}

// Command runs a program and ignores its output. The error has the end of the program's message.
func (c Children) Command(dir string, args ...string) error {
	_, err := c.Capture(dir, args...)
	return err
}

// Capture runs a program in dir and returns its standard output.
func (c Children) Capture(dir string, args ...string) ([]byte, error) {
	return c.runChild(child.Command{Args: args, Dir: dir})
}

// Git runs git in a folder and returns the output, see child.Git.
func (c Children) Git(dir string, args ...string) ([]byte, error) {
	return c.runChild(child.Git(dir, args...))
}

// GitDo runs git and ignores the output.
func (c Children) GitDo(dir string, args ...string) error {
	_, err := c.Git(dir, args...)
	return err
}

func (c Children) runChild(cmd child.Command) ([]byte, error) {
	cmd.Hurry = c.hurry
	out, words, err := cmd.Run(c.App.Ctx)
	switch {
	case c.App.Ctx.Err() != nil || errors.Is(err, child.ErrHurried):
		return nil, cli.ErrInterrupted
	case errors.Is(err, child.ErrLong):
		return nil, fmt.Errorf("%w after %s", err, cmd.Limit.Round(100*time.Millisecond))
	case errors.Is(err, child.ErrMuch):
		return nil, fmt.Errorf("%w: %s of standard output are read at most (%s sets how much memory reading may take, now %s)",
			err, outside.MemoryText(child.MostOutput()), outside.MemoryVariable, outside.MemoryText(outside.DocumentMemory()))
	}
	return out, addMessage(err, failureText(out, words))
}

// failureLine matches a line that reports a failure: a Python traceback, a Go panic, a failed pytest assertion.
var failureLine = lazyregexp.New(`(?m)^(Traceback \(most recent call last\)|panic: |E  +\S)`)

// failureText returns the message of a failed program: words, the end of its standard error. If words is empty, or if
// only out, its standard output, has a line that reports a failure, the message is the end of out.
func failureText(out []byte, words string) string {
	tail := out[max(0, len(out)-4096):]
	if strings.TrimSpace(words) == "" || failureLine.Match(tail) && !failureLine.MatchString(words) {
		return string(tail)
	}
	return words
}

func addMessage(err error, words string) error {
	text := document.MaskLinks(cli.SentenceOf(words))
	if err == nil || text == "" {
		return err
	}
	if len(text) > 400 {
		text = "… " + text[len(text)-400:]
	}
	return fmt.Errorf("%w: %s", err, text)
}
