package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Sentence returns an error's text on one line, without control characters.
func Sentence(err error) string { return SentenceOf(err.Error()) }

// SentenceOf returns a text on one line, without control characters.
func SentenceOf(text string) string {
	return document.CleanText(strings.Join(strings.Fields(text), " "))
}

// Examples formats a subcommand's examples for its help text.
func Examples(lines ...string) string {
	return "Examples:\n\n    " + strings.Join(lines, "\n    ") + "\n"
}

// Columns prints rows in aligned columns; the first row is the heading.
func Columns(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		document.CleanStrings(&r) // names of files and commands may contain control characters
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}

// WriteJSON prints an indented JSON document.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return gpuprof.Errorf(nil, "encoding JSON: %w", err).WithFix("this is a fault in gpuprof, please report it")
	}
	return nil
}
