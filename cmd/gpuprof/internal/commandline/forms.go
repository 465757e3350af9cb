package commandline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A form of a verb with its own flags is a command of the grammar, named by the verb and one more word. `gpuprof run
// -- CMD` is RunProgramVerb, `gpuprof tune -- CMD` TuneProgramVerb. ProgramVerb and Joined make these names from typed
// words.
const (
	RunProgramVerb  = "run --"
	TuneProgramVerb = "tune --"
	checkForm       = "run --check"
	watchForm       = "run watch"
	recordForm      = "run record"
	listForm        = "explain list"
	schemaForm      = "explain schema"
)

// formNames lists the forms with a typed second word; a program after "--" makes a form without one.
func formNames() []string { return []string{checkForm, watchForm, recordForm, listForm, schemaForm} }

// IsForm reports whether a command is a form of another verb; lists and completion omit it.
func IsForm(name string) bool { return strings.Contains(name, " ") }

// isListed reports whether lists and completion show a command.
func isListed(n *kong.Node) bool { return !n.Hidden && !IsForm(n.Name) }

// Renamed is a verb's name in an earlier version, and its present name.
type Renamed struct{ Old, New string }

// renamedVerbs lists the verbs of earlier versions (docs/cli.md). They work, with a note, for two minor versions.
func renamedVerbs() []Renamed {
	return []Renamed{
		{"baseline", "history baseline"}, {"check", checkForm}, {"watch", watchForm},
		{"record", recordForm}, {"list", listForm}, {"schema", schemaForm},
	}
}

// Current replaces a renamed verb by its new name; renamed is nil for other verbs.
func Current(root *kong.Node, words []string) (now []string, renamed *Renamed) {
	_, at := firstWord(root, words, 0)
	if at < 0 {
		return words, nil
	}
	for _, r := range renamedVerbs() {
		if words[at] == r.Old {
			return slices.Concat(words[:at], strings.Fields(r.New), words[at+1:]), &r
		}
	}
	return words, nil
}

// Joined replaces a verb and the word that selects its form by one word: "run", "watch" becomes "run watch". The second
// word must be the first argument after the verb, but a flag such as --check may be anywhere: "run", "x", "--check"
// becomes "run --check", "x".
func Joined(root *kong.Node, words []string) []string {
	verb, at := firstWord(root, words, 0)
	if verb == "" || IsForm(verb) {
		return words
	}
	_, next := firstWord(NodeOf(root, verb), words, at+1)
	for _, form := range formNames() {
		of, second, _ := strings.Cut(form, " ")
		where := next
		if strings.HasPrefix(second, "-") {
			where = slices.IndexFunc(words, func(w string) bool { return w == second || w == second+"=true" })
		}
		if of != verb || where < 0 || strings.TrimSuffix(words[where], "=true") != second {
			continue
		}
		out := slices.Clone(words)
		out[at] = form
		return slices.Delete(out, where, where+1)
	}
	return words
}

// IsProgramVerb reports whether a verb runs the user's own program.
func IsProgramVerb(name string) bool { return name == RunProgramVerb || name == TuneProgramVerb }

// hasProgramVerb reports whether a verb has a form for a user's program.
func hasProgramVerb(node *kong.Node) bool { return IsProgramVerb(node.Name + " --") }

func programVerbOf(node *kong.Node) *kong.Node { return NodeOf(node.Parent, node.Name+" --") }

// ProgramVerb replaces "run" or "tune" by RunProgramVerb or TuneProgramVerb if only flags, or help, precede it.
func ProgramVerb(args []string) []string {
	for i, arg := range args {
		switch {
		case arg == "help" && i+1 < len(args):
		case IsProgramVerb(arg + " --"):
			args = slices.Clone(args)
			args[i] = arg + " --"
			return args
		case len(arg) == 0 || arg[0] != '-':
			return args
		}
	}
	return args
}

// Notice is the note about a renamed verb.
func (r *Renamed) Notice() string {
	return "gpuprof " + r.Old + " is now gpuprof " + r.New + "; the old spelling works for two more minor versions"
}

// formsOf returns the forms that complete a verb.
func formsOf(root *kong.Node, verb string) []Candidate {
	var out []Candidate
	for _, form := range formNames() {
		of, second, _ := strings.Cut(form, " ")
		if n := NodeOf(root, form); of == verb && n != nil && !strings.HasPrefix(second, "-") {
			out = append(out, Candidate{second, n.Help})
		}
	}
	return out
}
