// Command gen writes docs/explain.md from the texts of internal/explain; `go generate` runs it there.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/explain"
)

const file = "../../docs/explain.md"

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "explain: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	var b strings.Builder
	b.WriteString("# Rules, warnings, columns and terms\n\n" +
		"`gpuprof explain NAME` prints one of these texts, `gpuprof explain list rules` (`warnings`, `columns`, `terms`) the names. HTML reports hold those of\n" +
		"their own findings and warnings. This page is made from the same text (`go generate ./internal/explain`).\n")
	for _, kind := range explain.Kinds() {
		entries, err := explain.All(kind)
		if err != nil {
			return err
		}
		k := string(kind)
		fmt.Fprintf(&b, "\n## %ss\n", strings.ToUpper(k[:1])+k[1:])
		for _, e := range entries {
			fmt.Fprintf(&b, "\n### %s\n\n", e.Name)
			for _, p := range e.Parts {
				fmt.Fprintf(&b, "- %s: %s\n", p.Title, p.Text)
			}
			if len(e.Also) > 0 {
				fmt.Fprintf(&b, "- also: %s\n", strings.Join(e.Also, ", "))
			}
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return gpuprof.Errorf(nil, "writing the page: %w", err).WithFix("run this in internal/explain")
	}
	return nil
}
