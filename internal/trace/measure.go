package trace

import (
	"fmt"
	"path/filepath"
	"strings"
)

// measureCommand is how a reader sees whether a change did what a finding
// claims: record the changed program, and compare the recording with this one.
// It is the same for every finding; the program and the recording are the
// reader's own, as far as they are known.
func (a *Analysis) measureCommand() string {
	old, now, program := "OLD", "NEW", "YOUR COMMAND"
	switch {
	case a.Program != nil && a.Program.Dir != "":
		old = a.Program.Dir
		now = strings.TrimRight(old, "/") + "-changed"
	case len(a.Inputs) == 1:
		old = a.Inputs[0].Path
	case len(a.Inputs) > 1:
		if dir := filepath.Dir(a.Inputs[0].Path); sameFolder(a.Inputs, dir) {
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

func sameFolder(inputs []Input, dir string) bool {
	for _, in := range inputs {
		if filepath.Dir(in.Path) != dir {
			return false
		}
	}
	return dir != "."
}

// shellWord quotes a word for a shell where it needs that; a path from the home
// folder stays one.
func shellWord(w string) string {
	if rest, ok := strings.CutPrefix(w, "~/"); ok && rest != "" {
		return "~/" + shellWord(rest)
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+@%^", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// cpus is how many CPUs each recorded process of the program has for itself,
// 0 unknown.
func (c *ruleContext) cpus() int {
	p := &c.t.Program
	if p.CPUs <= 0 {
		return 0
	}
	return max(p.CPUs/max(p.Traces, 1), 1)
}
