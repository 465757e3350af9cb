package analyze

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// measureCommand is how a reader sees whether a change did what a finding
// claims: record the changed program, and compare the recording with this one.
// It is the same for every finding; the program and the recording are the
// reader's own, as far as they are known.
func (a *Analysis) measureCommand(indexes []*Index) string {
	old, now, program := "OLD", "NEW", "YOUR COMMAND"
	var paths []string
	for _, x := range indexes {
		paths = append(paths, cmp.Or(x.T.Opens, x.T.Path))
	}
	switch {
	case a.Program != nil && a.Program.Dir != "":
		old = cmp.Or(a.Program.Opens, a.Program.Dir)
		now = strings.TrimRight(old, "/") + "-changed"
	case len(paths) == 1:
		old = paths[0]
	case len(paths) > 1:
		if dir := filepath.Dir(paths[0]); sameFolder(paths, dir) {
			old = dir
		}
	}
	if a.Program != nil && len(a.Program.Command) > 0 {
		var words []string
		for _, w := range a.Program.Command {
			words = append(words, shellWord(w))
		}
		program = strings.Join(words, " ")
	}
	return fmt.Sprintf("gpuprof run -o %s -- %s && gpuprof analyze --compare %s %s", shellWord(now), program, shellWord(old), shellWord(now))
}

func sameFolder(paths []string, dir string) bool {
	return dir != "." && !slices.ContainsFunc(paths, func(p string) bool { return filepath.Dir(p) != dir })
}

// shellWord is gpuprof.ShellWord, but a path from the home folder stays one.
func shellWord(w string) string {
	if rest, ok := strings.CutPrefix(w, "~/"); ok && rest != "" {
		return "~/" + shellWord(rest)
	}
	return gpuprof.ShellWord(w)
}
