package commandline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Forms of a verb that have flags of their own are commands of the grammar whose name is the verb and one more word.
// `gpuprof run -- CMD` is RunProgramVerb, `gpuprof tune -- CMD` TuneProgramVerb; ProgramVerb and Joined make the names.
const (
	RunProgramVerb  = "run --"
	TuneProgramVerb = "tune --"
	checkForm       = "run --check"
	watchForm       = "run watch"
	recordForm      = "run record"
	listForm        = "explain list"
	schemaForm      = "explain schema"
)

// formNames lists the forms with a second word that the user types; a program after -- is a form without one.
func formNames() []string { return []string{checkForm, watchForm, recordForm, listForm, schemaForm} }

// IsForm reports whether a command is a form of another verb, which lists and completion leave out.
func IsForm(name string) bool { return strings.Contains(name, " ") }

// isListed reports whether a command is a verb that lists and completion show.
func isListed(n *kong.Node) bool { return !n.Hidden && !IsForm(n.Name) }

// Renamed is a verb of an earlier version, and the words that replace it.
type Renamed struct{ Old, New string }

// renamedVerbs lists the verbs of earlier versions. They work, with a line that names the new spelling, for two minor
// versions; docs/cli.md lists them.
func renamedVerbs() []Renamed {
	return []Renamed{
		{"baseline", "history baseline"}, {"check", checkForm}, {"watch", watchForm},
		{"record", recordForm}, {"list", listForm}, {"schema", schemaForm},
	}
}

// Current returns the words with the new spelling of a renamed verb; renamed is nil for other verbs.
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

// Joined makes one word of a verb and the second word of its form: "run", "watch" is "run watch". A flag, as in
// run --check, may stand anywhere behind the verb.
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

// hasProgramVerb reports whether a verb has a form for the user's own program; programVerbOf returns it.
func hasProgramVerb(node *kong.Node) bool { return IsProgramVerb(node.Name + " --") }

func programVerbOf(node *kong.Node) *kong.Node { return NodeOf(node.Parent, node.Name+" --") }

// ProgramVerb turns "run" or "tune", followed by a command, into RunProgramVerb or TuneProgramVerb; so it does behind
// help.
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

// Notice is the line about a renamed verb, for standard error.
func (r *Renamed) Notice() string {
	return "gpuprof " + r.Old + " is now gpuprof " + r.New + "; the old spelling works for two more minor versions"
}

// formsOf returns the candidates that complete a verb with forms.
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
