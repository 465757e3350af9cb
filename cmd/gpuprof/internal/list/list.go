// Package list implements gpuprof explain list: it prints workloads, presets, knobs, devices, baselines and the names
// that gpuprof explain takes, as tables or JSON. It imports the packages cli and input, but no package of another
// subcommand.
package list

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/workloads"
)

// Cmd has the arguments and flags of gpuprof explain list.
type Cmd struct {
	What     string `arg:"" optional:"" complete:"list" help:"workloads, knobs, presets, devices or baselines, or what explain knows: rules, warnings, columns or terms; without it, the workloads. A workload's name lists its presets and knobs."`
	Workload string `arg:"" optional:"" complete:"workload" help:"List this workload's only."`
	Format   string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return cli.Examples("gpuprof explain list", "gpuprof explain list knobs e3nn", "gpuprof explain list presets", "gpuprof explain list devices --format json", "gpuprof explain list rules")
}

// listing is the document that --format json prints. Only the requested lists have entries.
type listing struct {
	Workloads []workloadEntry `json:"workloads,omitempty"`
	Presets   []presetEntry   `json:"presets,omitempty"`
	Knobs     []knobEntry     `json:"knobs,omitempty"`
	Devices   []cli.Device    `json:"devices,omitempty"`
	Rules     []explain.Entry `json:"rules,omitempty"`
	Warnings  []explain.Entry `json:"warnings,omitempty"`
	Columns   []explain.Entry `json:"columns,omitempty"`
	Terms     []explain.Entry `json:"terms,omitempty"`
}

type workloadEntry struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Presets []string `json:"presets"`
}

type presetEntry struct {
	Workload string           `json:"workload"`
	Name     string           `json:"name"`
	Doc      string           `json:"doc"`
	Knobs    gpuprof.Settings `json:"knobs"` // values of all knobs
}

type knobEntry struct {
	Workload string            `json:"workload"`
	Name     string            `json:"name"`
	Default  string            `json:"default"`
	Presets  map[string]string `json:"presets"` // values that differ from the default, by preset
	Accepts  string            `json:"accepts"`
	Kind     string            `json:"kind"` // "model" or "tuning"
	Doc      string            `json:"doc"`
}

// Run implements gpuprof explain list.
func (c *Cmd) Run(a *cli.App) error {
	what, only := c.What, c.Workload
	what = cmp.Or(what, "workloads")
	if a.IsWorkload(what) && only == "" {
		what, only = "", what
	} else if !slices.Contains(cli.ListKinds(), what) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "listing %s: there is no such list", what).WithFix("use %s or a workload's name%s", strings.Join(cli.ListKinds(), ", "), gpuprof.DidYouMean(what, append(cli.ListKinds(), a.WorkloadNames()...)))
	}
	chosen := a.Workloads()
	if only != "" {
		w, err := a.FindWorkload(only, "explain list")
		if err != nil {
			return err
		}
		chosen = []workloads.Workload{w}
	}
	if what == "baselines" {
		return input.ListBaselines(a, "", c.Format, only)
	}
	l, err := newListing(a, what, chosen)
	if err != nil {
		return err
	}
	document.CleanStrings(&l) // device names come from the driver
	if c.Format == "json" {
		return cli.WriteJSON(a.Stdout, l)
	}
	return l.print(a.Stdout)
}

func (l *listing) explainedLists() map[explain.Kind]*[]explain.Entry {
	return map[explain.Kind]*[]explain.Entry{explain.Rule: &l.Rules, explain.Warning: &l.Warnings, explain.Column: &l.Columns, explain.Term: &l.Terms}
}

// newListing collects the list with the name what. An empty name means two lists: presets and knobs of the chosen
// workloads.
func newListing(a *cli.App, what string, chosen []workloads.Workload) (listing, error) {
	var l listing
	if what == "devices" {
		l.Devices = a.Devices()
		return l, nil
	}
	if kind, is := kindOf(what); is {
		entries, err := explain.All(kind)
		*l.explainedLists()[kind] = entries
		return l, err
	}
	for _, w := range chosen {
		if what == "workloads" {
			l.Workloads = append(l.Workloads, describeWorkload(w))
		}
		if what == "presets" || what == "" {
			p, err := describePresets(w)
			if err != nil {
				return l, err
			}
			l.Presets = append(l.Presets, p...)
		}
		if what == "knobs" || what == "" {
			for _, k := range w.Knobs() {
				l.Knobs = append(l.Knobs, describeKnob(w, k))
			}
		}
	}
	return l, nil
}

func describeWorkload(w workloads.Workload) workloadEntry {
	e := workloadEntry{Name: w.Name(), Doc: w.Doc()}
	for _, p := range w.Presets() {
		e.Presets = append(e.Presets, p.Name)
	}
	return e
}

func describePresets(w workloads.Workload) ([]presetEntry, error) {
	var out []presetEntry
	for _, p := range w.Presets() {
		knobs, err := workloads.Resolve(w, p.Name, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, presetEntry{w.Name(), p.Name, p.Doc, knobs})
	}
	return out, nil
}

func describeKnob(w workloads.Workload, k workloads.Knob) knobEntry {
	e := knobEntry{Workload: w.Name(), Name: k.Name, Default: k.Default, Presets: map[string]string{},
		Accepts: strings.TrimPrefix(k.Usage(), "use "), Kind: "tuning", Doc: k.Doc}
	if k.Model {
		e.Kind = "model"
	}
	for _, p := range w.Presets() {
		if v, ok := p.Set[k.Name]; ok && v != k.Default {
			e.Presets[p.Name] = v
		}
	}
	return e
}

// print prints a table for each nonempty list.
func (l listing) print(w io.Writer) error {
	tables := [][][]string{l.workloadRows(), l.presetRows(), l.knobRows(), l.deviceRows()}
	for _, k := range explain.Kinds() {
		tables = append(tables, explainedRows(*l.explainedLists()[k]))
	}
	tables = slices.DeleteFunc(tables, func(rows [][]string) bool { return len(rows) < 2 })
	for i, rows := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := cli.Columns(w, rows); err != nil {
			return err
		}
	}
	return nil
}

func (l listing) workloadRows() [][]string {
	rows := [][]string{{"WORKLOAD", "PRESETS", "WHAT IT IS"}}
	for _, e := range l.Workloads {
		rows = append(rows, []string{e.Name, strings.Join(e.Presets, " "), e.Doc})
	}
	return rows
}

func (l listing) presetRows() [][]string {
	rows := [][]string{{"WORKLOAD", "PRESET", "WHAT IT IS"}}
	for _, e := range l.Presets {
		rows = append(rows, []string{e.Workload, e.Name, e.Doc})
	}
	return rows
}

// knobRows returns several rows per knob: its values and effect do not fit into one.
func (l listing) knobRows() [][]string {
	rows := [][]string{{"WORKLOAD", "KNOB", "DEFAULT", "KIND", "ACCEPTS, WHAT IT DOES, IN PRESETS"}}
	for _, e := range l.Knobs {
		rows = append(rows, []string{e.Workload, e.Name, e.Default, e.Kind, e.Accepts}, []string{"", "", "", "", "  " + e.Doc})
		if len(e.Presets) > 0 {
			rows = append(rows, []string{"", "", "", "", "  in presets: " + cli.Describe(e.Presets)})
		}
	}
	return rows
}

func (l listing) deviceRows() [][]string {
	rows := [][]string{{"DEVICE", "WHAT IT IS"}}
	for _, e := range l.Devices {
		rows = append(rows, []string{e.Name, e.Doc})
	}
	return rows
}

// kindOf returns the kind of explained names in a list, such as explain.Rule for "rules"; false for other lists.
func kindOf(what string) (explain.Kind, bool) {
	for _, k := range explain.Kinds() {
		if what == string(k)+"s" {
			return k, true
		}
	}
	return "", false
}

// explainedRows returns a heading and a row per entry; nil without entries.
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
