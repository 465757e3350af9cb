package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// atLast bounds only what would hang.
const atLast = 2 * time.Minute

func sh(script string) Command { return Command{Args: []string{"sh", "-c", script}, Limit: atLast} }

// gone waits until the processes whose numbers a file holds have ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || len(strings.Fields(string(text))) == 0 {
		t.Fatalf("%s: %q, %v", file, text, err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if lives(pid) {
			t.Errorf("process %d is left", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Whatever a shell script leaves behind ends with it, and does not keep it from
// ending by holding its output open.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"background":        `sleep 600 & echo $! >pids`,
		"grandchild":        `sh -c 'sleep 600 & echo $! >pids' & wait $!`,
		"deaf":              `sh -c 'trap "" TERM; echo $$ >pids; exec sleep 600' & until [ -s pids ]; do sleep 0.01; done`,
		"a session by name": `setsid sh -c 'echo $$ >pids; exec sleep 600' & until [ -s pids ]; do sleep 0.01; done`,
		"twice away":        `setsid sh -c 'setsid sleep 600 & echo $! >pids' ; true`,
		"no environment":    `env -i sleep 600 & echo $! >pids`,
		"stopped":           `sleep 600 & echo $! >pids; kill -STOP $!`,
		"silent":            `sleep 600 >/dev/null 2>&1 & echo $! >pids`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sh(script + "; echo done")
			c.Dir = t.TempDir()
			out, words, err := c.Run(t.Context())
			if err != nil || string(out) != "done\n" {
				t.Errorf("%q, %q, %v", out, words, err)
			}
			gone(t, filepath.Join(c.Dir, "pids"))
		})
	}
}

// The last words of a program that is gone are whole, however late they are read.
func TestLastWords(t *testing.T) {
	t.Parallel()
	c := sh(`echo first >&2; echo "the reason" >&2; exit 3`)
	c.Drain = atLast
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	p.stderrTail.mu.Lock() // the reader gets no further than the first it reads
	<-p.Ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.End()
	}()
	time.Sleep(20 * time.Millisecond) // End goes as far as it goes without the words
	p.stderrTail.mu.Unlock()
	<-ended
	if p.Words() != "first\nthe reason\n" {
		t.Errorf("the last words are %q", p.Words())
	}
}

// A program that does not end is ended, with all it started, however it clings.
func TestLimit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"hung":    `echo $$ >pids; exec sleep 600`,
		"deaf":    `trap "" TERM; echo $$ >pids; while :; do sleep 1; done`,
		"stopped": `echo $$ >pids; kill -STOP $$`,
		"pipe":    `echo $$ >pids; sleep 600 | cat`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sh(script)
			c.Dir = t.TempDir()
			// The limit is a context that ends once the script runs: no clock decides.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					if text, err := os.ReadFile(filepath.Join(c.Dir, "pids")); err == nil && len(text) > 0 {
						cancel()
					}
					time.Sleep(time.Millisecond)
				}
			}()
			if _, _, err := c.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the context's error", err)
			}
			gone(t, filepath.Join(c.Dir, "pids"))
		})
	}
	if _, _, err := (Command{Args: []string{"sleep", "600"}, Limit: time.Millisecond}).Run(t.Context()); !errors.Is(err, ErrLong) {
		t.Errorf("%v, want ErrLong", err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	out, _, err := Command{Args: []string{"yes"}, Most: 1 << 20}.Run(t.Context())
	if !errors.Is(err, ErrMuch) || len(out) > 1<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	_, words, err := sh(`yes wrong | head -c 1000000 >&2; echo the end >&2; exit 7`).Run(t.Context())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || len(words) > wordsKept || !strings.HasSuffix(words, "the end\n") {
		t.Errorf("%v, %d bytes of words", err, len(words))
	}
	// What outlives a shell may still have something to say.
	out, _, err = Command{Args: []string{"bash", "-c", "echo said > >(sleep 0.05; cat)"}, Drain: atLast}.Run(t.Context())
	if err != nil || string(out) != "said\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// One side's end leaves what the other started alone.
func TestSidesAreApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := sh(`setsid sh -c 'echo $$ >pids; exec sleep 600' & read x`)
	c.Dir = dir
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := sh(`until [ -s ` + filepath.Join(dir, "pids") + ` ]; do sleep 0.01; done`).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || !lives(pid) {
		t.Errorf("process %d of the other program is gone, %v", pid, err)
	}
	if err := p.End(); err == nil {
		t.Error("the program ended well, and it was told to end")
	}
	gone(t, filepath.Join(dir, "pids"))
}
