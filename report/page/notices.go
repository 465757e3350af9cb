package page

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// notice is a kind of warning, from one or several runs.
type notice struct {
	Code  string
	Where string // "4 of 5 runs"; empty when there is one run and one process
	Text  string // the words common to all; "…" replaces the others
	Fix   string
	Each  []string // for each run or process, its words in place of "…": "batch=64: -1.85 % and 0.92 %"
}

// Head returns the code with the runs that have the warning.
func (n notice) Head() string {
	if n.Where == "" {
		return n.Code
	}
	return n.Code + " in " + n.Where
}

// maxEach limits how many runs a joined warning lists: their labels, or the parts of the text in which they differ.
const maxEach = 12

// processWarning is a warning of one process.
type processWarning struct{ run, process, text string }

func (g processWarning) processLabel() string { return strings.TrimSpace(g.run + " " + g.process) }

var ofProcess = lazyregexp.New(`^(process \d+): `)

// groupNotices joins warnings with equal code and fix, so that a sweep does not list a warning once per run.
func groupNotices(runs []*gpuprof.Run) []notice {
	var order []gpuprof.Warning
	groups := map[gpuprof.Warning][]processWarning{}
	for i, r := range runs {
		for _, w := range r.Warnings {
			g := processWarning{run: runLabel(runs, i), text: view.Cut(w.Text, 600)}
			if m := ofProcess.FindStringSubmatch(g.text); m != nil {
				g.process, g.text = m[1], g.text[len(m[0]):]
			}
			key := gpuprof.Warning{Code: view.Cut(w.Code, 60), Fix: view.Cut(w.Fix, 600)}
			if _, has := groups[key]; !has {
				order = append(order, key)
			}
			groups[key] = append(groups[key], g)
		}
	}
	var out []notice
	for _, key := range order {
		out = append(out, newNotice(key, groups[key], runs))
	}
	return out
}

// runLabel names one of several runs: by its setting, else by number.
func runLabel(runs []*gpuprof.Run, i int) string {
	if len(runs) < 2 {
		return ""
	}
	if names := sweep.Vary(runs); len(names) > 0 {
		return sweep.SettingText(runs[i], names)
	}
	return fmt.Sprintf("run %d", i+1)
}

func newNotice(key gpuprof.Warning, all []processWarning, runs []*gpuprof.Run) notice {
	n := notice{Code: key.Code, Fix: key.Fix}
	texts := make([]string, len(all))
	var labels []string
	for i, g := range all {
		texts[i] = g.text
		if l := g.processLabel(); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	text, parts := sharedText(texts)
	n.Text, n.Where = text, countWarned(all, runs)
	switch {
	case parts == nil && len(labels) == 1:
		n.Where = labels[0]
	case parts == nil && len(labels) > 1 && len(labels) <= maxEach:
		n.Where += " (" + joinLabels(labels) + ")"
	}
	for i, part := range parts[:min(len(parts), maxEach)] {
		if l := all[i].processLabel(); l != "" {
			part = l + ": " + part
		}
		n.Each = append(n.Each, part)
	}
	if left := len(parts) - maxEach; left > 0 {
		n.Each = append(n.Each, fmt.Sprintf("and %d more", left))
	}
	return n
}

// joinLabels joins settings and names a common knob once: "batch=64, 128, 256".
func joinLabels(labels []string) string {
	name, _, _ := strings.Cut(labels[0], "=")
	short := slices.Clone(labels)
	for i, l := range labels {
		if !strings.HasPrefix(l, name+"=") || strings.Contains(l, " ") {
			return strings.Join(labels, ", ")
		}
		if i > 0 {
			short[i] = l[len(name)+1:]
		}
	}
	return strings.Join(short, ", ")
}

// countWarned counts the runs with the warning, or the processes of a single run.
func countWarned(all []processWarning, runs []*gpuprof.Run) string {
	had := map[string]bool{}
	if len(runs) > 1 {
		for _, g := range all {
			had[g.run] = true
		}
		return fmt.Sprintf("%d of %s", len(had), gpuprof.Plural(len(runs), "run"))
	}
	for _, g := range all {
		had[g.process] = true
	}
	if n := view.Processes(runs[0].Step); n > 1 && !had[""] {
		return fmt.Sprintf("%d of %s", len(had), gpuprof.Plural(n, "process"))
	}
	return ""
}

// sharedText returns the words common to all texts, with an ellipsis, and each text's own words; nil for equal texts.
func sharedText(texts []string) (string, []string) {
	words := make([][]string, len(texts))
	for i, t := range texts {
		words[i] = strings.Fields(t)
	}
	first := words[0]
	head, tail := len(first), len(first)
	same := true
	for _, w := range words[1:] {
		same = same && slices.Equal(w, first)
		head = min(head, countCommon(first, w, false))
		tail = min(tail, countCommon(first, w, true))
	}
	if same {
		return strings.Join(first, " "), nil
	}
	for _, w := range words {
		tail = max(0, min(tail, len(w)-head))
	}
	const least = 4 // least number of shared words that is worth a line
	if head+tail < least {
		return "", texts
	}
	// Keep a unit with its number, and close a bracket or quote where it is opened.
	mark := ""
	if tail > 0 && isUnit(strings.TrimRight(first[len(first)-tail], ";,.:")) {
		word := first[len(first)-tail]
		mark = word[len(strings.TrimRight(word, ";,.:")):]
		tail--
	}
	from, to, ok := closeBrackets(words, head, tail, least)
	if !ok {
		return "", texts
	}
	if to < tail {
		mark = ""
	}
	head, tail = from, to
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = strings.TrimSuffix(strings.Join(w[head:len(w)-tail], " "), mark)
	}
	shared := slices.Concat(first[:head], []string{"…" + mark}, first[len(first)-tail:])
	return strings.Join(shared, " "), parts
}

// isUnit reports whether a word is a unit of the preceding number, or has no letter and no digit.
func isUnit(word string) bool {
	return slices.Contains([]string{"ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB"}, word) || !strings.ContainsFunc(word, isWord)
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// brackets has pairs of opening and closing characters; each character of quotes closes itself.
const brackets, quotes = "()[]{}", "\"`"

// closeBrackets shortens the shared head and tail of texts until no differing part contains half of a pair. It cuts
// as few words as possible, first from the tail, and ignores texts with an unclosed pair. ok is false if fewer words
// than least remain.
func closeBrackets(words [][]string, head, tail, least int) (from, to int, ok bool) {
	words = slices.DeleteFunc(slices.Clone(words), hasHalfPair)
	for cut := 0; cut == 0 || cut <= head+tail-least; cut++ {
		for back := min(cut, tail); back >= max(0, cut-head); back-- {
			from, to = head-(cut-back), tail-back
			if !slices.ContainsFunc(words, func(w []string) bool { return hasHalfPair(w[from : len(w)-to]) }) {
				return from, to, true
			}
		}
	}
	return 0, 0, false
}

// hasHalfPair reports whether words contain an unclosed bracket or quote.
func hasHalfPair(words []string) bool {
	text := strings.Join(words, " ")
	for i := 0; i < len(brackets); i += 2 {
		if strings.Count(text, brackets[i:i+1]) != strings.Count(text, brackets[i+1:i+2]) {
			return true
		}
	}
	return strings.Count(text, quotes[:1])%2+strings.Count(text, quotes[1:])%2 > 0
}

// countCommon counts the words that a and b share at the front, or at the back.
func countCommon(a, b []string, back bool) int {
	for n := range min(len(a), len(b)) {
		x, y := n, n
		if back {
			x, y = len(a)-1-n, len(b)-1-n
		}
		if a[x] != b[y] {
			return n
		}
	}
	return min(len(a), len(b))
}
