// Package commandline interprets command lines with kong's model of the grammar. It corrects words before kong parses
// them, answers wrong command lines with a command to type, handles repeated flags and "-" for standard input, and
// implements completion and help. gpuprof calls its subcommands verbs. The package imports package cli, but no package
// of a subcommand.
package commandline

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// ProgramMeant returns an error if a program is named where a subcommand or workload is expected, without "--" before
// it. Other command lines give nil.
func ProgramMeant(a *cli.App, root *kong.Node, words []string) error {
	verb, at := firstWord(root, words, 0)
	if at < 0 {
		return nil
	}
	if verb == "" {
		if command := commandIn(words[at:]); command != nil {
			return missingDashes("unknown verb "+words[at], append([]string{"run"}, words[:at]...), command, " (the verbs are "+strings.Join(VerbNames(root), ", ")+")")
		}
		return nil
	}
	node := NodeOf(root, verb)
	if len(node.Positional) == 0 {
		return nil
	}
	_, first := firstWord(node, words, at+1)
	if first < 0 || a.IsWorkload(words[first]) {
		return nil
	}
	command := commandIn(words[first:])
	flags := words[at+1 : first]
	switch {
	case node.Positional[0].Tag.Get("complete") == "workload" && command != nil:
		if verb != "run" {
			flags = nil // these flags are not flags of run
		}
		return missingDashes(words[first]+" is a program and no workload", append([]string{"run"}, flags...), command, "")
	case verb == "run" && isFile(words[first]):
		return gpuprof.Errorf(gpuprof.ErrUsage, "choosing workload %s: it is a file", words[first]).
			WithFix("give the command that runs it, gpuprof run -- COMMAND %[1]s; a result or a trace is shown by gpuprof report %[1]s or gpuprof analyze %[1]s", gpuprof.ShellWord(words[first]))
	case verb == "gate" && command != nil && slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--against") }):
		return missingDashes(words[first]+" is a program and no workload", append([]string{"gate"}, flags...), command, "")
	}
	return nil
}

// missingDashes returns an error that proposes the command with "--" before the program. more is appended to the
// proposal.
func missingDashes(why string, before, command []string, more string) error {
	line := slices.Concat([]string{"gpuprof"}, before, []string{"--"}, command)
	for i := range line {
		line[i] = gpuprof.ShellWord(line[i])
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: %s", why).WithFix("did you mean %s?%s", strings.Join(line, " "), more)
}

// firstWord returns the index of the first word, from index at on, that is neither a flag nor a flag's value; -1 if
// there is none. verb is this word if node has a subcommand of that name.
func firstWord(node *kong.Node, words []string, at int) (verb string, index int) {
	for i := at; i < len(words); i++ {
		w := words[i]
		if !strings.HasPrefix(w, "-") {
			if NodeOf(node, w) != nil {
				verb = w
			}
			return verb, i
		}
		if takesValue(node, w) {
			i++
		}
	}
	return "", -1
}

// takesValue reports whether the next word is the value of the flag word. For run and tune it also considers the flags
// of "run --" and "tune --", which the user may mean.
func takesValue(node *kong.Node, word string) bool {
	f := flagMeant(node, word)
	return f != nil && !f.IsBool()
}

func flagMeant(node *kong.Node, word string) *kong.Flag {
	f := FindFlag(node, word)
	if f == nil && hasProgramVerb(node) {
		f = FindFlag(programVerbOf(node), word)
	}
	return f
}

// NodeOf returns the visible subcommand of node with that name, or nil.
func NodeOf(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name && !n.Hidden })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// interpreterOf returns the interpreter for a script, by its extension; "" if there is none.
func interpreterOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".py":
		return "python"
	case ".sh":
		return "bash"
	}
	return ""
}

// commandIn returns the words as a command to run, with an interpreter before a script; nil if the first word is no
// program.
func commandIn(words []string) []string {
	name := words[0]
	script := func(w string) bool { return interpreterOf(w) != "" }
	if _, err := exec.LookPath(name); err == nil || !script(name) && slices.ContainsFunc(words[1:], script) {
		return words // a word before a script is a program, here or on the target machine
	}
	if by := interpreterOf(name); by != "" {
		return append([]string{by}, words...)
	}
	if here := "./" + name; !strings.ContainsRune(name, filepath.Separator) && isFile(here) {
		if _, err := exec.LookPath(here); err == nil {
			return append([]string{here}, words[1:]...)
		}
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// OnlyHelp reports whether "--" is followed by only --help or -h, which asks for help and names no program.
func OnlyHelp(rest []string) bool {
	return len(rest) == 1 && (rest[0] == "--help" || rest[0] == "-h")
}
