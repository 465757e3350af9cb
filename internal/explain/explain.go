// Package explain has the texts about rules, warnings, columns and terms for `gpuprof explain`, the HTML pages and
// docs/explain.md.
package explain

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

//go:generate go run ./gen

//go:embed texts/*.txt
var texts embed.FS

// Kind is the subject of an entry.
type Kind string

// The kinds of entries.
const (
	Rule    Kind = "rule"
	Warning Kind = "warning"
	Column  Kind = "column"
	Term    Kind = "term"
)

// Kinds lists the kinds of entries, in the order in which docs/explain.md and `gpuprof explain list` show them.
func Kinds() []Kind { return []Kind{Rule, Warning, Column, Term} }

// Entry is the text about one rule, warning, column or term.
type Entry struct {
	Name  string   `json:"name"`
	Kind  Kind     `json:"kind"`
	Also  []string `json:"also,omitempty"` // other names
	Parts []Part   `json:"parts"`          // at least one
}

// Part is a titled paragraph, such as "cause". In its text, backticks mark code and asterisks column names.
type Part struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// titles has the fields of the text files and their titles, in page order.
var titles = [...]struct{ field, title string }{
	{"also", ""}, {"meaning", "meaning"}, {"cause", "cause"}, {"source", "source"}, {"runs", "in a run"}, {"traces", "in a trace"}, {"memory", "in a memory snapshot"},
	{"change", "change"}, {"claims", "bound, run"}, {"bound", "bound"}, {"saves", "bound, memory"},
}

// All returns the entries of the given kinds, or of all kinds, in file order.
func All(kinds ...Kind) ([]Entry, error) {
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	var out []Entry
	for _, k := range kinds {
		text, err := texts.ReadFile("texts/" + string(k) + "s.txt")
		if err != nil {
			return nil, gpuprof.Errorf(nil, "reading the texts about %ss: %w", k, err).WithFix("this is a fault in gpuprof, please report it")
		}
		entries, err := parseEntries(k, string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

// parseEntries parses "# name", then lines "field: text" with indented continuations.
func parseEntries(kind Kind, text string) ([]Entry, error) {
	var out []Entry
	var fields map[string]string
	last := ""
	finish := func() error {
		if fields == nil {
			return nil
		}
		return out[len(out)-1].setParts(fields)
	}
	for n, line := range strings.Split(text, "\n") {
		field, rest, isField := strings.Cut(line, ": ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "# "):
			if err := finish(); err != nil {
				return nil, err
			}
			out, fields = append(out, Entry{Name: line[2:], Kind: kind}), map[string]string{}
		case strings.HasPrefix(line, "  ") && last != "":
			fields[last] += " " + strings.TrimSpace(line)
		case isField && fields != nil:
			last, fields[field] = field, rest
		default:
			return nil, fmt.Errorf("reading the texts about %ss: line %d is neither a name nor a field", kind, n+1)
		}
	}
	return out, finish()
}

func (e *Entry) setParts(fields map[string]string) error {
	if e.Kind == Rule {
		known := gpuprof.Rules()
		i := slices.IndexFunc(known, func(r gpuprof.Rule) bool { return r.ID == e.Name })
		if i < 0 {
			return fmt.Errorf("reading the texts about rules: there is no rule %s", e.Name)
		}
		fields["cause"] = known[i].Cause
	}
	for _, t := range titles {
		text, has := fields[t.field]
		if !has {
			continue
		}
		delete(fields, t.field)
		if t.field == "also" {
			e.Also = strings.Split(text, " | ")
			continue
		}
		title := t.title
		if t.field == "bound" && e.Kind == Rule {
			title = "bound, trace"
		}
		e.Parts = append(e.Parts, Part{Title: title, Text: text})
	}
	for field := range fields {
		return fmt.Errorf("reading the text about %s %s: there is no field %q", e.Kind, e.Name, field)
	}
	return nil
}

// Find returns the entries with a name, of any kind: some warnings have the name of a rule. It also finds former names
// of rules. If there is no entry, the error names the nearest.
func Find(name string) ([]Entry, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	var out []Entry
	var names []string
	for _, e := range all {
		if e.hasName(name) || e.Kind == Rule && e.Name == gpuprof.RuleNow(name, "") {
			out = append(out, e)
		}
		names = append(append(names, e.Name), e.Also...)
	}
	if len(out) == 0 {
		meant := gpuprof.DidYouMean(name, names)
		if i := slices.IndexFunc(names, func(n string) bool { return len(name) > 2 && strings.Contains(n, strings.ToLower(name)) }); i >= 0 {
			meant = fmt.Sprintf(" (did you mean %q?)", names[i])
		}
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "explaining %q: there is no rule, warning, column or term of this name", name).
			WithFix("gpuprof explain list rules, warnings, columns or terms lists them%s", meant)
	}
	return out, nil
}

func (e *Entry) hasName(name string) bool {
	return strings.EqualFold(e.Name, name) || slices.ContainsFunc(e.Also, func(also string) bool { return strings.EqualFold(also, name) })
}

// Brief returns the first sentence: the cause or the meaning.
func (e *Entry) Brief() string {
	text, _, _ := strings.Cut(e.Parts[0].Text, ". ")
	return text
}

// Plain returns a text without marks of code and names.
func Plain(text string) string { return strings.NewReplacer("`", "", "*", "").Replace(text) }
