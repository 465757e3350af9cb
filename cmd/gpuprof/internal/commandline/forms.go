package commandline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Some subcommands have forms with other flags, such as "run watch". In the grammar, a form is a command of its own,
// whose name is two words. RunProgramVerb is `gpuprof run -- CMD`, TuneProgramVerb `gpuprof tune -- CMD`. The functions
// ProgramVerb and Joined replace typed words by these names.
const (
	RunProgramVerb  = "run --"
	TuneProgramVerb = "tune --"
	checkForm       = "run --check"
	watchForm       = "run watch"
	recordForm      = "run record"
	listForm        = "explain list"
	schemaForm      = "explain schema"
)

// formNames lists the forms whose second word the user types. It omits the forms for a program after "--".
func formNames() []string { return []string{checkForm, watchForm, recordForm, listForm, schemaForm} }

// IsForm reports whether a command is a form (two words) of another subcommand. Lists and completion omit forms.
func IsForm(name string) bool { return strings.Contains(name, " ") }

// isListed reports whether lists and completion show a command.
func isListed(n *kong.Node) bool { return !n.Hidden && !IsForm(n.Name) }

// Renamed has a subcommand's former and present name.
type Renamed struct{ Old, New string }

// renamedVerbs lists the subcommands that earlier versions renamed (docs/cli.md). A former name works for two minor
// versions, with a note.
func renamedVerbs() []Renamed {
	return []Renamed{
		{"baseline", "history baseline"}, {"check", checkForm}, {"watch", watchForm},
		{"record", recordForm}, {"list", listForm}, {"schema", schemaForm},
	}
}

// Current replaces the former name of a subcommand by the present one. renamed is nil if nothing was replaced.
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

// Joined replaces a subcommand and the word that selects one of its forms by the name of the form: "run", "watch"
// becomes "run watch". The word must be the first argument of the subcommand. A flag that selects a form may be
// anywhere: "run", "x", "--check" becomes "run --check", "x".
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

// IsProgramVerb reports whether a command is a form that runs the user's own program.
func IsProgramVerb(name string) bool { return name == RunProgramVerb || name == TuneProgramVerb }

// hasProgramVerb reports whether a subcommand has a form for the user's own program.
func hasProgramVerb(node *kong.Node) bool { return IsProgramVerb(node.Name + " --") }

func programVerbOf(node *kong.Node) *kong.Node { return NodeOf(node.Parent, node.Name+" --") }

// ProgramVerb replaces "run" or "tune" by RunProgramVerb or TuneProgramVerb, if only flags or the word help precede it.
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

// Notice returns the note for the user about a renamed subcommand.
func (r *Renamed) Notice() string {
	return "gpuprof " + r.Old + " is now gpuprof " + r.New + "; the old spelling works for two more minor versions"
}

// formsOf returns the words that select a form of a subcommand, for completion.
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
