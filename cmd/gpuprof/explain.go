package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/workloads"
)

type explainCmd struct {
	Name   []string `arg:"" complete:"explain" help:"A rule, a warning, a column or a term, as gpuprof prints it."`
	Format string   `default:"table" formats:"explanation" placeholder:"FORMAT" help:"Format to print: ${explanationFormats}."`
}

// Help implements kong.HelpProvider.
func (explainCmd) Help() string {
	return "gpuprof list rules, warnings, columns or terms lists the names.\n\n" +
		examples("gpuprof explain explicit-sync", "gpuprof explain not-settled", "gpuprof explain 95 % interval", "gpuprof explain exposed time --format json")
}

// Run implements the verb.
func (c *explainCmd) Run(a *app) error {
	name := strings.Join(strings.Fields(strings.Join(c.Name, " ")), " ")
	entries, err := explain.Find(name)
	if err != nil {
		return cmp.Or(explainedByList(name), err)
	}
	a.verbose = true // an explanation is short, and printed whole
	return outputTable().explanation.show(a, c.Format, entries)
}

// explainedByList says where a knob's text is; nil where no workload has a knob of this name.
func explainedByList(name string) error {
	var has []string
	for _, w := range allWorkloads() {
		if slices.ContainsFunc(w.Knobs(), func(k workloads.Knob) bool { return k.Name == name }) {
			has = append(has, w.Name())
		}
	}
	if has == nil {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "explaining %q: it is a knob of %s", name, strings.Join(has, ", ")).WithFix("gpuprof list knobs %s says what it does", has[0])
}

// explainNames completes what explain takes.
func explainNames() []candidate {
	entries, err := explain.All()
	if err != nil {
		return nil
	}
	var out []candidate
	for _, e := range entries {
		if !strings.Contains(e.Name, " ") { // the shells complete one word at a time
			out = append(out, candidate{e.Name, string(e.Kind) + ": " + explain.Plain(e.Brief())})
		}
	}
	return out
}

// explained are the lists of list that have an explanation for every entry.
func explained(what string) (explain.Kind, bool) {
	for _, k := range explain.Kinds() {
		if what == string(k)+"s" {
			return k, true
		}
	}
	return "", false
}

// explainedRows are a head and a line for each entry, none without entries.
func explainedRows(entries []explain.Entry) [][]string {
	var rows [][]string
	for i, e := range entries {
		if i == 0 {
			rows = [][]string{{strings.ToUpper(string(e.Kind)), "IN SHORT (gpuprof explain NAME HAS MORE)"}}
		}
		rows = append(rows, []string{e.Name, explain.Plain(e.Brief())})
	}
	return rows
}
