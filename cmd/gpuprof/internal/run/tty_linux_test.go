package run

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
)

func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, c := range []struct {
		name            string
		noColor         bool
		quiet           bool
		color, progress bool
	}{
		{"plain", false, false, true, true},
		{"no colour", true, false, false, true},
		{"quiet", false, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, shownOut := testkit.Terminal(t)
			errs, shownErr := testkit.Terminal(t)
			s, _ := fakeRun(t.Context(), t, out, errs, "ok")
			s.app.NoColor, s.app.Quiet = c.noColor, c.quiet
			if w := s.app.Width(); w != 100 {
				t.Errorf("width %d, want 100", w)
			}
			if err := s.finish(); err != nil {
				t.Error(err)
			}
			text, progress := shownOut(), shownErr()
			if strings.Contains(text, "\x1b[") != c.color {
				t.Errorf("colour wanted %v: %q", c.color, text)
			}
			if strings.Contains(progress, "fake: sample") != c.progress {
				t.Errorf("progress wanted %v: %q", c.progress, progress)
			}
		})
	}
}
