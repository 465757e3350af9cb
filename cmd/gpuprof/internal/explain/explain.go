// Package explain implements gpuprof explain for a rule, a warning, a column or a term. It imports package cli, but no
// package of another subcommand.
package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/workloads"
)

// Cmd has the arguments and flags of gpuprof explain.
type Cmd struct {
	Name   []string `arg:"" complete:"explain" help:"A rule, a warning, a column or a term, as gpuprof prints it."`
	Format string   `default:"table" formats:"explanation" placeholder:"FORMAT" help:"Format to print: ${explanationFormats}."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "gpuprof explain list rules, warnings, columns or terms lists the names.\n\n" +
		cli.Examples("gpuprof explain explicit-sync", "gpuprof explain not-settled", "gpuprof explain 95 % interval", "gpuprof explain exposed time --format json")
}

// Run implements gpuprof explain.
func (c *Cmd) Run(a *cli.App) error {
	name := strings.Join(strings.Fields(strings.Join(c.Name, " ")), " ")
	entries, err := explain.Find(name)
	if err != nil {
		return cmp.Or(explainedByList(a, name), err)
	}
	a.Verbose = true // an explanation is short and printed in full
	return a.Documents.Explanation.Show(a, c.Format, entries)
}

// explainedByList returns an error that refers to gpuprof explain list, if that command has the name; nil for other
// names.
func explainedByList(a *cli.App, name string) error {
	if slices.Contains(cli.ListKinds(), name) || a.IsWorkload(name) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "explaining %q: it is no single rule, warning, column or term", name).WithFix("gpuprof explain list %s lists it", name)
	}
	var has []string
	for _, w := range a.Workloads() {
		if slices.ContainsFunc(w.Knobs(), func(k workloads.Knob) bool { return k.Name == name }) {
			has = append(has, w.Name())
		}
	}
	if has == nil {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "explaining %q: it is a knob of %s", name, strings.Join(has, ", ")).WithFix("gpuprof explain list knobs %s says what it does", has[0])
}
