package analyze

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// measureCommand returns the command line with which a user measures a change: it records the changed program and
// compares the new recording with this one. All findings share the command. Unknown names of the program or of the
// recordings are placeholders.
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
		if dir := filepath.Dir(paths[0]); isSameFolder(paths, dir) {
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
	return fmt.Sprintf("%s -- %s && gpuprof analyze --compare %s %s", a.recordCommand(shellWord(now)), program, shellWord(old), shellWord(now))
}

// recordCommand returns the command that records a program of this kind into the folder to. It uses gpuprof's hook for
// PyTorch, gpuprof's CUDA recorder for programs that call CUDA, and ROCm's profiler for programs that call HIP.
func (a *Analysis) recordCommand(to string) string {
	switch {
	case a.Recording == nil || a.Recording.Program == PyTorch || a.Recording.Program == Python && a.Host != nil:
		return "gpuprof run -o " + to
	case a.Recording.Program == HIP:
		return "rocprofv3 --runtime-trace --output-format rocpd -d " + to
	}
	return "gpuprof run --cuda -o " + to
}

func isSameFolder(paths []string, dir string) bool {
	return dir != "." && !slices.ContainsFunc(paths, func(p string) bool { return filepath.Dir(p) != dir })
}

// shellWord quotes a word like gpuprof.ShellWord, but leaves "~/" at its start for the shell to expand.
func shellWord(w string) string {
	if rest, ok := strings.CutPrefix(w, "~/"); ok && rest != "" {
		return "~/" + shellWord(rest)
	}
	return gpuprof.ShellWord(w)
}
