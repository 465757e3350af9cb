package commandline

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/workloads"
)

//go:embed completion/gpuprof.bash
var bashScript string

//go:embed completion/gpuprof.zsh
var zshScript string

//go:embed completion/gpuprof.fish
var fishScript string

// CompletionCmd has the argument of gpuprof completion.
type CompletionCmd struct {
	Shell string `arg:"" choices:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong.HelpProvider.
func (CompletionCmd) Help() string {
	return "Load it in bash with: source <(gpuprof completion bash)\n\n" +
		cli.Examples("gpuprof completion bash", "gpuprof completion zsh", "gpuprof completion fish")
}

// Run implements gpuprof completion.
func (c *CompletionCmd) Run(a *cli.App) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(a.Stdout, script)
	return err
}

// Candidate is a possible completion of a word, with its description.
type Candidate struct{ Value, Doc string }

// wantFiles asks the shell for file names.
var wantFiles = Candidate{":files", ""}

// wantCommand asks the shell to complete the words after the first n as a command line of another program.
func wantCommand(n int) Candidate { return Candidate{":command", strconv.Itoa(n)} }

// Complete lists the completions of the last word in words, which may be an empty word.
func Complete(a *cli.App, root *kong.Node, words []string) []Candidate {
	last := len(words) - 1
	before, current := words[:last], words[last]
	if !slices.Contains(before, "--") { // before "--" the words are gpuprof's
		before, _ = Current(root, before)
		before = Joined(root, before)
		last = len(before)
	}
	node, at := nodeIn(root, before)
	if node.Name == "help" {
		verb, _ := nodeIn(root, before[at:])
		return keepMatching(verbCandidates(verb), current)
	}
	if d := slices.Index(before, "--"); d >= 0 {
		return behindDashes(node, d)
	}
	if len(before) > 0 {
		if f := flagMeant(node, before[last-1]); f != nil && !f.IsBool() {
			return keepMatching(valuesOf(a, f.Value, before, current), current)
		}
	}
	if name, typed, ok := strings.Cut(current, "="); ok && strings.HasPrefix(name, "-") {
		return flagValue(a, node, name, typed, before)
	}
	if strings.HasPrefix(current, "-") {
		return keepMatching(flagCandidates(a, node, before), current)
	}
	if len(node.Children) > 0 {
		return keepMatching(verbCandidates(node), current)
	}
	if p := nextArgument(node, before[at:]); p != nil {
		values := valuesOf(a, p, before, current)
		if len(before[at:]) == 0 {
			values = append(values, formsOf(root, node.Name)...)
		}
		if node.Name == "run" {
			values = append(values, Candidate{"--", "the command of a program of your own follows"})
		}
		return keepMatching(values, current)
	}
	return nil
}

// behindDashes completes the words after the "--" at index d.
func behindDashes(node *kong.Node, d int) []Candidate {
	switch {
	case node.Name == "pprof":
		return []Candidate{wantFiles}
	case TakesRest(node) || hasProgramVerb(node):
		return []Candidate{wantCommand(d + 1)}
	}
	return nil
}

// nodeIn returns the subcommand of node that the words name, such as "history add"; node itself if they name none. at
// is the index of the first word after the name.
func nodeIn(node *kong.Node, words []string) (verb *kong.Node, at int) {
	for {
		name, i := firstWord(node, words, at)
		if name == "" {
			return node, at
		}
		node, at = NodeOf(node, name), i+1
	}
}

// flagValue completes the value in a word --flag=typed.
func flagValue(a *cli.App, node *kong.Node, name, typed string, before []string) []Candidate {
	f := flagMeant(node, name)
	if f == nil || f.IsBool() {
		return nil
	}
	found := keepMatching(valuesOf(a, f.Value, before, typed), typed)
	for i := range found {
		if found[i] != wantFiles {
			found[i].Value = name + "=" + found[i].Value
		}
	}
	return found
}

func keepMatching(all []Candidate, current string) []Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
		return c != wantFiles && !strings.HasPrefix(c.Value, current)
	})
}

func verbCandidates(node *kong.Node) []Candidate {
	var out []Candidate
	for _, n := range node.Children {
		if isListed(n) {
			out = append(out, Candidate{n.Name, n.Help})
		}
	}
	return out
}

func eachFlag(node *kong.Node, visit func(*kong.Flag)) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			visit(f)
		}
	}
}

// FindFlag returns the visible flag of a subcommand that a word (--name or -n) names; nil if there is none.
func FindFlag(node *kong.Node, word string) (found *kong.Flag) {
	eachFlag(node, func(f *kong.Flag) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			found = f
		}
	})
	return found
}

// flagCandidates lists the flags of a subcommand. For run and tune without a workload it also lists the flags for a
// user's own program.
func flagCandidates(a *cli.App, node *kong.Node, before []string) []Candidate {
	var out []Candidate
	add := func(f *kong.Flag) {
		c := Candidate{"--" + f.Name, f.Help}
		if !slices.ContainsFunc(out, func(has Candidate) bool { return has.Value == c.Value }) {
			out = append(out, c)
		}
	}
	eachFlag(node, add)
	if hasProgramVerb(node) && !slices.ContainsFunc(before, a.IsWorkload) {
		eachFlag(programVerbOf(node), add)
	}
	return out
}

// nextArgument returns the positional argument to which the next word would belong; nil if there is none.
func nextArgument(node *kong.Node, words []string) *kong.Value {
	n := 0
	for i, w := range words {
		if strings.HasPrefix(w, "-") {
			continue
		}
		if i > 0 {
			if takesValue(node, words[i-1]) {
				continue
			}
		}
		n++
	}
	if len(node.Positional) == 0 {
		return nil
	}
	if p := node.Positional[len(node.Positional)-1]; n >= len(node.Positional) && p.IsCumulative() {
		return p
	}
	if n >= len(node.Positional) {
		return nil
	}
	return node.Positional[n]
}

// valuesOf lists the values of a flag or argument: its choices, or the values of the kind in its tag `complete`, such
// as "device".
func valuesOf(a *cli.App, v *kong.Value, words []string, current string) []Candidate {
	if choices := cli.ChoicesOf(a.Documents, v.Tag); choices != nil {
		return namedCandidates(choices)
	}
	switch v.Tag.Get("complete") {
	case "file":
		return []Candidate{wantFiles}
	case "plot":
		return namedCandidates(a.Plots)
	case "device":
		return deviceCandidates(a)
	case "workload":
		return workloadCandidates(a)
	case "range": // a range of commits; after a range, a workload
		if slices.ContainsFunc(words, cli.TwoEnds) {
			return workloadCandidates(a)
		}
	case "explain":
		return explainNames()
	case "list":
		return append(namedCandidates(cli.ListKinds()), workloadCandidates(a)...)
	case "preset":
		return presetCandidates(a, words)
	case "knob":
		return knobCandidates(a, words, current)
	}
	return nil
}

func namedCandidates(values []string) []Candidate {
	out := make([]Candidate, len(values))
	for i, v := range values {
		out[i] = Candidate{Value: v}
	}
	return out
}

func deviceCandidates(a *cli.App) []Candidate {
	out := []Candidate{{"auto", "the first GPU, else the host"}}
	for _, d := range a.Devices() {
		out = append(out, Candidate{d.Name, d.Doc})
	}
	return out
}

func workloadCandidates(a *cli.App) []Candidate {
	var out []Candidate
	for _, w := range a.Workloads() {
		out = append(out, Candidate{w.Name(), w.Doc()})
	}
	return out
}

// workloadIn returns the workload that the words name, or the first workload.
func workloadIn(a *cli.App, words []string) workloads.Workload {
	all := a.Workloads()
	for _, w := range all {
		if slices.Contains(words, w.Name()) {
			return w
		}
	}
	return all[0]
}

func presetCandidates(a *cli.App, words []string) []Candidate {
	var out []Candidate
	for _, p := range workloadIn(a, words).Presets() {
		out = append(out, Candidate{p.Name, p.Doc})
	}
	return out
}

// knobCandidates completes "knob=" and then each value of a comma-separated list.
func knobCandidates(a *cli.App, words []string, current string) []Candidate {
	knob, list, hasValue := strings.Cut(current, "=")
	var out []Candidate
	for _, k := range workloadIn(a, words).Knobs() {
		if !hasValue {
			out = append(out, Candidate{k.Name + "=", k.Doc})
			continue
		}
		if k.Name != knob {
			continue
		}
		given := list[:strings.LastIndex(list, ",")+1]
		for _, v := range k.Values {
			if !slices.Contains(strings.Split(given, ","), v) {
				out = append(out, Candidate{knob + "=" + given + v, ""})
			}
		}
		if len(k.Values) == 0 && given == "" {
			out = append(out, Candidate{knob + "=" + k.Default, "the default; " + k.Accept})
		}
	}
	return out
}

func explainNames() []Candidate {
	entries, err := explain.All()
	if err != nil {
		return nil
	}
	var out []Candidate
	for _, e := range entries {
		if !strings.Contains(e.Name, " ") { // shells complete one word at a time
			out = append(out, Candidate{e.Name, string(e.Kind) + ": " + explain.Plain(e.Brief())})
		}
	}
	return out
}
