package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/analyze"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/check"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/gate"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/list"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/mcp"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/pprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/program"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/report"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/run"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/schema"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/tuneprogram"
	versionverb "github.com/gpuprof/gpuprof/cmd/gpuprof/internal/version"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// grammar describes the command line for kong: the global flags, and a field for each subcommand, which gpuprof calls a
// verb.
type grammar struct {
	Quiet   bool `help:"Print results and errors only."`
	Verbose bool `short:"v" help:"Print every row, the evidence and the warnings."`
	Open    bool `help:"Open the HTML report that is written, in a browser."`
	NoColor bool `help:"Print without colour (NO_COLOR does the same)."`

	MaxTokens int `name:"max-tokens" placeholder:"N" help:"Tokens of --format brief-json, at most about N (2000)."`

	RunProgram  program.Cmd     `cmd:"" name:"run --" help:"Run your own program and report which setting to change."`
	Run         run.Cmd         `cmd:"" help:"Record your own program (run -- CMD), or measure a workload."`
	Analyze     analyze.Cmd     `cmd:"" help:"Report where the time or memory of a recording went, and why."`
	TuneProgram tuneprogram.Cmd `cmd:"" name:"tune --" help:"Try settings on your own program, and report what makes it faster with the same training."`
	Tune        tune.Cmd        `cmd:"" help:"Measure which settings of a program or workload to change."`
	Gate        gate.Cmd        `cmd:"" help:"Decide whether something got slower, for CI."`
	Compare     gate.CompareCmd `cmd:"" help:"Report what changed between two results, where and why."`
	Bisect      bisect.Cmd      `cmd:"" help:"Find the commit that made a program slower."`
	History     history.Cmd     `cmd:"" help:"Show performance over commits; keep baselines."`
	Fleet       fleet.Cmd       `cmd:"" help:"Merge the results of a job's ranks, and name the slow GPU or node."`
	Doctor      doctor.Cmd      `cmd:"" help:"Report what this machine can and cannot measure, and why."`
	Report      report.Cmd      `cmd:"" help:"Turn stored results into reports, pictures and other formats."`
	Pprof       pprof.Cmd       `cmd:"" help:"Open a run or a recording in pprof."`
	Explain     explain.Cmd     `cmd:"" help:"Explain a rule or a term; list names; print JSON schemas."`
	MCP         mcp.Cmd         `cmd:"" name:"mcp" help:"Serve coding agents over the Model Context Protocol."`

	Completion commandline.CompletionCmd `cmd:"" help:"Print the completion script of a shell."`
	Version    versionverb.Cmd           `cmd:"" help:"Print the version."`
	Help       commandline.HelpCmd       `cmd:"" help:"Explain a verb: its flags, with examples."`
	Complete   completeCmd               `cmd:"" name:"__complete" hidden:""`

	// Commands of two words: forms of run and explain that have flags of their own (commandline.Joined).
	Check  check.Cmd         `cmd:"" name:"run --check" help:"Compare a workload with its reference, or with vectors from another program."`
	Watch  program.WatchCmd  `cmd:"" name:"run watch" help:"Show what a program does while it is recorded."`
	Record program.RecordCmd `cmd:"" name:"run record" help:"Record a window of a running program that was started for it."`
	List   list.Cmd          `cmd:"" name:"explain list" help:"List workloads, knobs, presets, devices, rules, warnings, columns or terms."`
	Schema schema.Cmd        `cmd:"" name:"explain schema" help:"Print the JSON schema of an output."`
}

// runCommand executes one command line and returns its exit code (cli.ExitCode).
func runCommand(ctx context.Context, w *wiring, args []string, stdout, stderr io.Writer) int {
	a := &cli.App{Tables: w.tables(), Ctx: ctx, Stdout: runfile.NewLines(stdout), Stderr: runfile.NewLines(stderr), Commands: stderr}
	err := explainPrinting(dispatch(a, args, w.machine()))
	if err == nil {
		return a.ChildCode
	}
	code := cli.ExitCode(err)
	printErrors(a, err, code, asksJSON(args))
	return code
}

// splitArgs splits the command line into own, gpuprof's own arguments, and a.Rest, the words after "--". In own, former
// names of subcommands are replaced, and a subcommand of two words, such as "run watch", is one word. dashed reports
// that the command line has a "--".
func splitArgs(a *cli.App, root *kong.Node, args []string) (own []string, dashed bool) {
	if at := slices.Index(args, "--"); at >= 0 {
		dashed = true
		before := currentWords(a, root, args[:at])
		args, a.Rest = commandline.ProgramVerb(before), args[at+1:]
		if slices.ContainsFunc(args, commandline.IsProgramVerb) && commandline.OnlyHelp(a.Rest) {
			args = append(args, "--help")
		}
	} else if own, rest, ok := pprof.SplitArgs(args); ok {
		args, a.Rest = own, rest
	}
	if len(args) == 1 && slices.Contains([]string{"--version", "-v", "-V"}, args[0]) {
		args = []string{"version"}
	}
	return currentWords(a, root, commandline.HelpWords(args)), dashed
}

// currentWords replaces the former name of a subcommand by its current name, and notes that for the user. It joins the
// words of a subcommand of two words, such as "run watch", to one word.
func currentWords(a *cli.App, root *kong.Node, words []string) []string {
	words, renamed := commandline.Current(root, words)
	if renamed != nil && !asksQuiet(words) {
		a.Note("%s", renamed.Notice())
	}
	return commandline.Joined(root, words)
}

// asksQuiet reports whether --quiet is among the words, which are not parsed yet.
func asksQuiet(words []string) bool { return slices.Contains(words, "--quiet") }

type line struct {
	grammar
	verb *kong.Context // the parsed subcommand; nil if only help was printed
}

// parse parses a command line, and checks everything that can be checked before the subcommand runs.
func parse(a *cli.App, args []string) (*line, error) {
	l := &line{}
	parser, exited, err := newParser(a, &l.grammar)
	if err != nil {
		return nil, err
	}
	root := parser.Model.Node
	args, dashed := splitArgs(a, root, args)
	if !dashed {
		if args, err = insertVerb(a, root, args); err != nil {
			return nil, err
		}
		if len(args) == 0 {
			return nil, commandline.NoVerb(a)
		}
		if err := commandline.ProgramMeant(a, root, args); err != nil {
			return nil, err
		}
	}
	short, more := commandline.TakeRepeats(root, args)
	kctx, err := parser.Parse(short)
	if *exited { // --help was given, and its text is printed
		return l, nil
	}
	if err != nil {
		return nil, parseError(parser, args, err)
	}
	more.Add()
	if dashed && !commandline.TakesRest(kctx.Selected()) {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof %s: it takes nothing after --", kctx.Selected().Name).WithFix("leave that out")
	}
	for _, check := range []func(*kong.Context) error{refuseEmpty, func(k *kong.Context) error { return checkChoices(a, k) }, commandline.StandardInput} {
		if err := check(kctx); err != nil {
			return nil, err
		}
	}
	l.verb = kctx
	a.MaxTokens, err = tokensOf(l.MaxTokens, formatAsked(args))
	return l, err
}

func dispatch(a *cli.App, args []string, machine *doctor.Machine) error {
	l, err := parse(a, args)
	if err != nil || l.verb == nil {
		return err
	}
	if err := outside.CheckMemorySetting(); err != nil {
		return err
	}
	a.Quiet, a.Verbose, a.NoColor = l.Quiet, l.Verbose, l.NoColor || os.Getenv("NO_COLOR") != ""
	if l.verb.Selected().Name != "__complete" { // completion must not check or note anything: it runs while the user types
		child.Sweep(a.Ctx, os.TempDir())
	}
	err = l.verb.Run(a, machine, &mcp.Texts{Schemas: schema.Schemas})
	if l.Open && (err == nil || len(a.Pages) > 0) { // a command that failed without a page has reported why
		err = errors.Join(err, openReport(a))
	}
	return err
}

// newParser builds kong's parser for the grammar c. Printing the help for --help sets exited; without this handler,
// kong would end the process.
func newParser(a *cli.App, c *grammar) (k *kong.Kong, exited *bool, err error) {
	exited = new(bool)
	texts := helpTexts{}
	k, err = kong.New(c,
		kong.Name("gpuprof"),
		kong.Description("Shows why a GPU program is slow, and whether a change made it slower."),
		kong.PostBuild(func(k *kong.Kong) error { return texts.hideIn(k.Model.Node) }),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Help(commandline.PrintHelp),
		cli.TimeMapper(),
		kong.Exit(func(int) { *exited = true }),
		// Parse "--samples -3" as a bad number, not as an unknown flag -3.
		kong.WithHyphenPrefixedParameters(true),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, nil, gpuprof.Errorf(nil, "building the command line: %w", err).WithFix("this is a fault in gpuprof, please report it")
	}
	texts.restoreWith(helpLists(a))
	return k, exited, nil
}

var unknownFlag = lazyregexp.New(`^unknown flag (\S+?),? ?(did you mean.*)?$`)

// parseError rewrites an error of kong as one sentence with a fix.
func parseError(parser *kong.Kong, args []string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "write" { // help text that could not be written
		return err
	}
	node := parser.Model.Node
	var pe *kong.ParseError
	if errors.As(err, &pe) && pe.Context != nil && pe.Context.Selected() != nil {
		node = pe.Context.Selected()
	}
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		typed := m[1]
		if n := commandline.NodeOf(parser.Model.Node, node.Name+" --"); n != nil && commandline.FindFlag(n, typed) != nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: %s is a flag for a program of your own, which -- introduces", typed).
				WithFix("write gpuprof %s %s … -- CMD, see gpuprof help %[1]s --", node.Name, typed)
		}
		names := commandline.FlagNames(node)
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: %s has no flag %s", commandline.Title(node), typed).WithFix("its flags are %s%s", strings.Join(names, " "), gpuprof.DidYouMean(typed, names))
	}
	if read, ok := errors.AsType[*gpuprof.Error](err); ok { // a malformed time, size or share
		flag, _, _ := strings.Cut(err.Error(), ": ")
		flag, _, _ = strings.Cut(flag, "=")
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: %w", flag, read.Err).WithFix("%s", read.Fix)
	}
	if node.Type == kong.ApplicationNode {
		return verbError(node, args)
	}
	if name := missingArgument.FindStringSubmatch(err.Error()); name != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of %s: no %s was given", commandline.Title(node), name[1]).WithFix("see %s --help", commandline.Title(node))
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of %s: %w", commandline.Title(node), err).WithFix("see %s --help", commandline.Title(node))
}

// missingArgument matches kong's error about a missing argument, with the argument's name.
var missingArgument = lazyregexp.New(`^expected "<([a-z]+)>(?: \.\.\.)?`)

func verbError(root *kong.Node, args []string) error {
	verbs := commandline.VerbNames(root)
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: unknown verb %q", arg).WithFix("the verbs are %s%s", strings.Join(verbs, ", "), gpuprof.DidYouMean(arg, verbs))
		}
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: no verb was given").WithFix("the verbs are %s, and gpuprof --help explains them", strings.Join(verbs, ", "))
}

// refuseEmpty refuses empty arguments, as an unset shell variable causes them. Some subcommands would treat an empty
// argument like a missing one.
func refuseEmpty(kctx *kong.Context) error {
	for _, p := range kctx.Path {
		if p.Positional == nil {
			continue
		}
		words, many := p.Positional.Target.Interface().([]string)
		if one, ok := p.Positional.Target.Interface().(string); ok {
			words, many = []string{one}, true
		}
		if many && slices.Contains(words, "") {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof %s: an argument (%s) is empty", kctx.Selected().Name, p.Positional.Name).WithFix("leave it out, or set the variable that it came from")
		}
	}
	return nil
}

// checkChoices refuses values of flags and arguments that their `choices` tag does not list.
func checkChoices(a *cli.App, kctx *kong.Context) error {
	for _, p := range kctx.Path {
		v, label := p.Positional, ""
		if p.Flag != nil {
			v, label = p.Flag.Value, "--"
		}
		if v == nil || v.Tag == nil {
			continue
		}
		valid := cli.ChoicesOf(a.Documents, v.Tag)
		if valid == nil {
			continue
		}
		typed := fmt.Sprint(v.Target.Interface())
		if slices.Contains(valid, typed) {
			continue
		}
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: %s cannot be %q", label+v.Name, typed).WithFix("use one of %s%s", strings.Join(valid, ", "), gpuprof.DidYouMean(typed, valid))
	}
	return nil
}

// helpLists returns a replacer for help texts. It replaces placeholders, such as ${plots}, by lists of values.
func helpLists(a *cli.App) *strings.Replacer {
	lists := []string{
		"${plots}", a.PlotsText(""),
		"${tracePlots}", a.PlotsText("an analysis"),
		"${fleetPlots}", a.PlotsText("a fleet report"),
	}
	prints, files := a.Documents.Formats()
	for k, list := range prints {
		lists = append(lists, "${"+k+"Formats}", gpuprof.WordList(list, "or"))
	}
	for k, list := range files {
		lists = append(lists, "${"+k+"Files}", strings.Join(list, " "))
	}
	return strings.NewReplacer(lists...)
}

// helpTexts has the help texts of the grammar, by the address of their fields. hideIn removes the texts before kong
// builds the grammar, and restoreWith puts them back. Otherwise kong would search several hundred texts for variables
// with a regular expression, which would take a third of the building time.
type helpTexts map[*string]string

// hideIn stores and empties the help texts of a command, and of its flags, arguments and subcommands.
func (t helpTexts) hideIn(command *kong.Node) error {
	return kong.Visit(command, func(part kong.Visitable, next kong.Next) error {
		switch part := part.(type) {
		case *kong.Node:
			t[&part.Help], part.Help = part.Help, ""
		case *kong.Value: // a flag or an argument
			t[&part.Help], part.Help = part.Help, ""
		}
		return next(nil)
	})
}

// restoreWith puts the texts back, with lists in place of their placeholders.
func (t helpTexts) restoreWith(lists *strings.Replacer) {
	for place, text := range t {
		*place = text
		if strings.Contains(text, "${") {
			*place = lists.Replace(text)
		}
	}
}

// completeCmd prints completions for the shells' scripts. a.Rest has the words typed so far, the unfinished one last.
// It prints one candidate per line: value, tab, description. The value ":files" asks the shell to complete file names;
// ":command N" asks it to complete the words after the first N as a command line of another program.
type completeCmd struct{}

// Run implements the hidden subcommand __complete.
func (completeCmd) Run(a *cli.App) error {
	var c grammar
	k, _, err := newParser(a, &c)
	if err != nil {
		return err
	}
	words := a.Rest
	if len(words) == 0 {
		words = []string{""}
	}
	for _, cand := range commandline.Complete(a, k.Model.Node, words) {
		fmt.Fprintf(a.Stdout, "%s\t%s\n", cand.Value, cand.Doc)
	}
	return nil
}

// explainPrinting adds a fix to errors of writing to standard output. Other errors are unchanged.
func explainPrinting(err error) error {
	var all []error
	for _, e := range cli.Flatten(err) {
		var p *fs.PathError
		if errors.As(e, &p) && p.Op == "write" && p.Path == os.Stdout.Name() {
			e = gpuprof.Unwritable("printing to standard output", p, "send it elsewhere", "send it where it can be written")
		}
		all = append(all, e)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}
