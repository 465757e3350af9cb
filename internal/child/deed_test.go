//go:build !race

// Two hundred programs: under the race detector each takes several times as long to start. The other tests of this
// package start, end and lose programs there.

package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a program starts as its last deed is found too, at whichever moment between
// its start and its end one looks.
func TestLastDeed(t *testing.T) {
	t.Parallel()
	for i := range 200 {
		c := sh(`read line; sleep 600 & echo $! >pids`)
		c.Dir = t.TempDir()
		p, err := c.Start()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%20) * 100 * time.Microsecond) // another moment each time
		if err := p.End(); err != nil && !strings.Contains(err.Error(), "signal") {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(c.Dir, "pids"))
		if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 {
			continue // it was ended before its deed was noted
		}
		gone(t, filepath.Join(c.Dir, "pids"))
	}
}
