package child

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestLeave: a program that hears nothing is killed at its limit at once, and one that
// not even the system can end is left to itself.
func TestLeave(t *testing.T) {
	out, words, err := Command{Args: []string{"sh", "-c", "trap '' TERM; echo printed; echo said >&2; while :; do sleep 1; done"}, Limit: 300 * time.Millisecond, Leave: time.Minute}.Run(t.Context())
	if !errors.Is(err, ErrLong) || string(out) != "printed\n" || words != "said\n" {
		t.Errorf("%q %q %v", out, words, err)
	}
	// What hangs in a driver cannot be made here: its end is never told.
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := &Process{Stdout: r, stderr: r, cmd: gone, mark: newMark(), Ended: make(chan struct{}), stderrDone: make(chan struct{}), c: Command{Leave: time.Millisecond}}
	close(p.stderrDone)
	read := make(chan struct{})
	close(read)
	if err := p.abandon(read); !errors.Is(err, ErrStuck) {
		t.Errorf("%v", err)
	}
}
