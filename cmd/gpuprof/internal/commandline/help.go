package commandline

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// PrintHelp prints the help of gpuprof, on at most 40 rows of 80 columns, or of a subcommand in kong's form. The help
// of run and tune also lists the flags for the user's own program.
func PrintHelp(o kong.HelpOptions, ctx *kong.Context) error {
	verb := ctx.Selected()
	switch {
	case verb == nil:
		return printVerbs(ctx.Stdout, ctx.Model.Node)
	case IsProgramVerb(verb.Name):
		o.NoAppSummary = true
		fmt.Fprintf(ctx.Stdout, "Usage: gpuprof %s [flags] -- CMD ARG...\n", strings.TrimSuffix(verb.Name, " --"))
	case verb.Parent == ctx.Model.Node && hasProgramVerb(verb):
		o.NoAppSummary = true
		fmt.Fprint(ctx.Stdout, usagesOf(ctx.Model.Node, verb.Name))
		addProgramFlags(verb)
	case verb.Parent == ctx.Model.Node && judgedForms()[verb.Name] != nil:
		o.NoAppSummary = true
		fmt.Fprint(ctx.Stdout, usageText(judgedForms()[verb.Name]))
	}
	return kong.DefaultHelpPrinter(o, ctx)
}

// usagesOf returns the usage lines of a subcommand, one for each of its forms.
func usagesOf(root *kong.Node, verb string) string {
	lines := []string{verb + " [flags] -- CMD ARG...", verb + " WORKLOAD [flags]"}
	for _, form := range formNames() {
		if of, _, _ := strings.Cut(form, " "); of == verb {
			lines = append(lines, form+" "+strings.ToUpper(NodeOf(root, form).Positional[0].Name)+" [flags]")
		}
	}
	return usageText(lines)
}

func usageText(forms []string) string {
	return "Usage: gpuprof " + strings.Join(forms, "\n       gpuprof ") + "\n"
}

// judgedForms has the usage lines of gate and bisect, which take a command after "--". Kong does not know this part of
// the command line, so it cannot list them.
func judgedForms() map[string][]string {
	return map[string][]string{
		"gate":   {"gate --against REF [flags] -- CMD ARG...", "gate OLD NEW [flags]", "gate FILE --max NAME=N [flags]", "gate WORKLOAD --against REF [flags]"},
		"bisect": {"bisect GOOD..BAD [flags] -- CMD ARG...", "bisect GOOD..BAD WORKLOAD [flags]", "bisect --resume [flags]"},
	}
}

// addProgramFlags adds the flags for the user's own program to the help of a subcommand, in a separate group.
func addProgramFlags(verb *kong.Node) {
	workload := &kong.Group{Key: "workload", Title: "Flags for a reference workload, gpuprof " + verb.Name + " WORKLOAD:"}
	program := &kong.Group{Key: "program", Title: "Flags for your own program, gpuprof " + verb.Name + " [flags] -- CMD:"}
	var both []*kong.Flag
	add := func(flags []*kong.Flag, to *kong.Group) {
		for _, f := range flags {
			if !f.Hidden {
				grouped := *f
				grouped.Group = to
				both = append(both, &grouped)
			}
		}
	}
	add(programVerbOf(verb).Flags, program)
	add(verb.Flags, workload)
	verb.Flags = both
}

// printVerbs prints the help of gpuprof: common questions, subcommands, global flags and exit codes.
func printVerbs(w io.Writer, root *kong.Node) error {
	out := &strings.Builder{}
	fmt.Fprint(out, "gpuprof shows why a GPU program is slow, and whether a change made it slower.\n\n"+
		"Usage: gpuprof VERB [flags], or gpuprof FILE... [flags]\n\n", jobs, "\nVerbs:\n")
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, n := range root.Children {
		if isListed(n) && n.Name != "help" && n.Name != "version" {
			fmt.Fprintf(columns, "  %s\t%s\n", n.Name, n.Help)
		}
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nA FILE or a folder is shown: a recording is analyzed, a run is reported, two\n"+
		"results are compared. A verb wins over a file of its name: ./run is the file.\n\nFlags of every verb:")
	for _, f := range root.Flags {
		name := "--" + f.Name
		if !f.IsBool() {
			name += "=" + f.PlaceHolder
		}
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		fmt.Fprintf(columns, "  %s\t%s\n", name, f.Help)
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%sgpuprof help VERB shows flags and examples, gpuprof --version the version.\n", cli.ExitHelp())
	_, err := io.WriteString(w, out.String())
	return err
}
