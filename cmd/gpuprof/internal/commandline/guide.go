package commandline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// jobs lists the user's questions from the README, with a command for each.
const jobs = `  My training is slow.            gpuprof run -- python train.py
  Did my change make it slower?   gpuprof gate --against main -- python train.py
  Is this GPU healthy?            gpuprof doctor --bench
  Which settings make it faster?  gpuprof tune -- python train.py
  Show it to others.              gpuprof report run.json -o report.html
`

// guide is the output of gpuprof without arguments.
const guide = "gpuprof shows why a GPU program is slow.\n\n" + jobs + "\ngpuprof --help lists every verb, gpuprof help VERB shows its flags and examples.\n"

// HelpCmd has the arguments of gpuprof help.
type HelpCmd struct {
	Verb []string `arg:"" optional:"" name:"verb" complete:"verb" help:"The verb, such as run or history add; run -- is the one for a program of your own."`
}

// Help implements kong.HelpProvider.
func (HelpCmd) Help() string {
	return "gpuprof VERB --help prints the same.\n\n" + cli.Examples("gpuprof help", "gpuprof help run", "gpuprof help history baseline")
}

// Run does nothing: HelpWords has turned "help VERB" into "VERB --help" before kong parses the command line.
func (HelpCmd) Run(*cli.App) error { return nil }

// HelpWords turns "help VERB" into "VERB --help". Other words are unchanged.
func HelpWords(words []string) []string {
	at := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
	if at < 0 || words[at] != "help" {
		return words
	}
	rest := slices.Concat(words[:at], words[at+1:])
	asks := slices.Contains(rest, "--help") || slices.Contains(rest, "-h")
	switch {
	case asks && len(rest) == 1: // help about help itself
		return words
	case at+1 < len(words) && words[at+1] == "help":
		rest = words
	}
	if asks {
		return rest
	}
	return append(slices.Clone(rest), "--help")
}

// VerbNames lists the subcommands, without hidden ones and forms of two words.
func VerbNames(root *kong.Node) []string {
	var out []string
	for _, n := range root.Children {
		if isListed(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

// NoVerb prints the guide for a command line without a subcommand. It also returns an error, because a script may have
// omitted the subcommand by mistake.
func NoVerb(a *cli.App) error {
	if _, err := fmt.Fprint(a.Stdout, guide); err != nil {
		return err
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: no verb was given").WithFix("type one of the commands above, or gpuprof --help")
}

// TakesRest reports whether a subcommand accepts words after "--".
func TakesRest(verb *kong.Node) bool {
	return slices.Contains([]string{"pprof", "gate", "bisect", "__complete", RunProgramVerb, TuneProgramVerb}, verb.Name) || verb.Name == "check" && verb.Parent.Name == "history"
}

// Title returns the full name of a command for messages; "gpuprof" for the root.
func Title(n *kong.Node) string {
	if n.Type == kong.ApplicationNode {
		return "gpuprof"
	}
	return n.FullPath()
}

// FlagNames lists the visible flags of a subcommand, including the global ones.
func FlagNames(n *kong.Node) []string {
	var out []string
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			out = append(out, "--"+f.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
