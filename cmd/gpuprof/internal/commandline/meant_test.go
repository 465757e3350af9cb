package commandline

import (
	"strings"
	"testing"
)

func TestProgramVerb(t *testing.T) {
	for in, want := range map[string]string{
		"run":              "run --",
		"run -o x":         "run --,-o,x",
		"--quiet run":      "--quiet,run --",
		"gate --against x": "gate,--against,x",
		"report run":       "report,run",
		"":                 "",
	} {
		if got := strings.Join(ProgramVerb(strings.Fields(in)), ","); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
