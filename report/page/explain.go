package page

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Explanation builds the page of gpuprof explain. entries have the same name, for example a warning and a term.
func Explanation(entries []explain.Entry) (*Page, error) {
	if len(entries) == 0 {
		return nil, view.ErrNoRun("an explanation")
	}
	p := &Page{Title: entries[0].Name, Answer: gpuprof.Answer{Verdict: string(entries[0].Kind), Tone: gpuprof.TonePlain, Sentence: explain.Plain(entries[0].Parts[0].Text)},
		Footer: "gpuprof explain list rules, warnings, columns and terms name all of them."}
	for _, e := range entries {
		parts := e.Parts
		if len(p.Sections) == 0 {
			parts = parts[1:] // the first part is in the answer
		}
		s := Section{ID: string(e.Kind), Blocks: []Block{Lines{Lines: explainLines(parts)}}}
		if len(entries) > 1 {
			s.Heading, s.HeadingIn = "As a "+string(e.Kind)+":", Terminal|HTML
		}
		p.Meta = append(p.Meta, string(e.Kind))
		p.Sections = append(p.Sections, s)
	}
	return p, nil
}

func explainLines(parts []explain.Part) []Line {
	var out []Line
	for _, part := range parts {
		out = append(out, Line{Label: part.Title, Value: explain.Plain(part.Text)})
	}
	return out
}

// aboutRule and aboutWarning return values for Item.About.
func aboutRule(id string) string      { return string(explain.Rule) + "-" + id }
func aboutWarning(code string) string { return string(explain.Warning) + "-" + code }

// addExplanations appends explanations of the page's rules and warnings, to which items link in HTML. A terminal gets
// one line with a gpuprof explain command instead.
func (p *Page) addExplanations() (*Page, error) {
	all, err := explain.All(explain.Rule, explain.Warning)
	if err != nil {
		return nil, err
	}
	w := aboutWalk{known: map[string]explain.Entry{}, seen: map[string]bool{}}
	for _, e := range all {
		w.known[string(e.Kind)+"-"+e.Name] = e
	}
	w.walkSections(p.Sections, true)
	p.Sections = append(p.Sections, Section{ID: "explanations", Heading: "Rules and warnings of this page", In: HTML, Blocks: []Block{w.texts}})
	return p, nil
}

// aboutWalk collects the texts to which the items of a page link, each once.
type aboutWalk struct {
	known map[string]explain.Entry
	seen  map[string]bool
	told  bool // a terminal line with the explain command was added
	texts List
}

// walkSections walks a page's sections; terminal reports that a terminal prints the enclosing section.
func (w *aboutWalk) walkSections(all []Section, terminal bool) {
	for _, s := range all {
		terminal := terminal && s.In.In(Terminal)
		for _, b := range s.Blocks {
			if l, ok := b.(List); ok {
				w.walkItems(l.Items, terminal && l.In.In(Terminal))
			}
		}
		w.walkSections(s.Sections, terminal)
	}
}

func (w *aboutWalk) walkItems(items []Item, terminal bool) {
	for i := range items {
		it := &items[i]
		if it.About == "" {
			continue
		}
		e, known := w.known[it.About]
		if !known { // the rule is from a file, or from another version
			it.About = ""
			continue
		}
		if e.Kind == explain.Rule && terminal && !w.told {
			w.told = true
			it.Lines = append(it.Lines, Line{Label: "explain", Value: "gpuprof explain " + e.Name, Code: true, Spare: true, In: Terminal})
		}
		if !w.seen[it.About] {
			w.seen[it.About] = true
			lines := explainLines(e.Parts)
			w.texts.Items = append(w.texts.Items, Item{ID: "about-" + it.About, Label: e.Name, Text: lines[0].Value, Lines: lines[1:]})
		}
	}
}
