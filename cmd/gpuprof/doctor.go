package main

import (
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof"
)

type doctorCmd struct {
	Format string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"What to print: table or json."`
}

// Help implements kong.HelpProvider.
func (doctorCmd) Help() string {
	return "Exits 4 when not even the host can be measured.\n\n" + examples("gpuprof doctor", "gpuprof doctor --format json")
}

// Run implements the verb.
func (c *doctorCmd) Run(a *app) error {
	lines := diagnose()
	var err error
	if c.Format == "json" {
		err = writeJSON(a.stdout, map[string]any{"checks": lines})
	} else {
		err = printDiagnosis(a.stdout, lines)
	}
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.Vital && l.State == stateMissing {
			return gpuprof.Errorf(gpuprof.ErrDevice, "examining this machine: %s: %s; %s", l.Name, l.Reason, l.Fix)
		}
	}
	return nil
}

// diagnose opens every device of this build and adds what the machine says.
func diagnose() []finding {
	var lines []finding
	for _, k := range devices() {
		lines = append(lines, examineDevice(k))
	}
	return append(lines, examineMachine()...)
}

func examineDevice(k deviceKind) finding {
	l := finding{Name: "device " + k.Name, State: stateOK, Vital: true}
	d, err := k.open()
	if err != nil {
		l.State, l.Reason, l.Fix = stateMissing, sentence(err), "nothing can be measured until it opens"
		return l
	}
	defer d.Close()
	info := d.Info()
	l.Found = fmt.Sprintf("%s, %s, %d threads, %s available", info.Name, info.Arch, info.Cores, gpuprof.FormatBytes(float64(d.Memory().Available)))
	return l
}

func printDiagnosis(w io.Writer, lines []finding) error {
	rows := [][]string{{"WHAT", "STATE", "FOUND"}}
	for _, l := range lines {
		rows = append(rows, []string{l.Name, string(l.State), l.Found})
		if l.Reason != "" {
			rows = append(rows, []string{"", "", "why: " + l.Reason})
		}
		if l.Fix != "" {
			rows = append(rows, []string{"", "", "fix: " + l.Fix})
		}
	}
	return columns(w, rows)
}
