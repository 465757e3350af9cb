// Command prose reports wording that breaks the language rules of CONTRIBUTING.md, in Go string literals, in embedded
// templates and scripts, and in the docs. `make lint` runs it in the repository's root; it exits 1 if it reports any.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The largest number of words of a document's sentence, and of their mean, without text in brackets.
const (
	longest = 35
	mean    = 20.0
)

func main() {
	found, err := checkFiles(os.DirFS("."))
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "prose: %v\n", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// passage is consecutive text with line breaks as blanks; marks has the offset of each line of the file.
type passage struct {
	text  string
	marks []mark
	prose bool // sentences of the docs, whose lengths are limited
}

type mark struct{ offset, line int }

func (p *passage) add(line int, text string) {
	for i, l := range strings.Split(text, "\n") {
		p.marks = append(p.marks, mark{len(p.text), line + i})
		p.text += l + " "
	}
}

// lineOf returns the line in the file for an offset in the text.
func (p *passage) lineOf(offset int) int {
	i, found := slices.BinarySearchFunc(p.marks, offset, func(m mark, o int) int { return m.offset - o })
	if !found {
		i--
	}
	return p.marks[i].line
}

// checkFiles returns findings as "file:line: …", and unused exceptions.
func checkFiles(root fs.FS) ([]string, error) {
	c := checker{used: make([]bool, len(exceptions))}
	for _, w := range words {
		c.patterns = append(c.patterns, regexp.MustCompile(w.pattern))
	}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if skipped[d.Name()] || strings.HasPrefix(path, ".") && path != "." {
				return fs.SkipDir
			}
			return err
		}
		read := extractorOf(path)
		if read == nil {
			return nil
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		passages, err := read(path, source)
		sentences, total := 0, 0
		for i := range passages {
			n, words := c.judgePassage(path, &passages[i])
			sentences, total = sentences+n, total+words
		}
		if float64(total) >= mean*float64(sentences) && sentences > 0 {
			c.report("%s: its sentences have %.1f words in the mean, %d or more: split some", path, float64(total)/float64(sentences), int(mean))
		}
		if strings.HasSuffix(path, ".go") {
			c.checkFixes(path, source)
		}
		c.checkHeadings(path, source)
		return err
	})
	for i, e := range exceptions {
		if !c.used[i] {
			c.report("scripts/check/prose/words.go: the exception for %q in %s (%s) excuses nothing: remove it", e.text, e.file, e.reason)
		}
	}
	return c.found, err
}

type checker struct {
	patterns []*regexp.Regexp
	used     []bool // by exception
	found    []string
}

func (c *checker) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// clause matches a document's or page's heading that begins like a clause.
var clause = regexp.MustCompile(`(?m)^#+ (?:What|Where|Who|Why|Nobody|How many)\b[^?\n]*$|\b(?:Heading|Title): +"(?:What|Where|Who|Why|Nobody|How many)\b[^?"]*"`)

// checkHeadings reports headings that are clauses, except questions.
func (c *checker) checkHeadings(path string, source []byte) {
	if !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
		return
	}
	for _, at := range clause.FindAllIndex(source, -1) {
		c.report("%s:%d: the heading %q is a clause: write a noun", path, 1+strings.Count(string(source[:at[0]]), "\n"), source[at[0]:at[1]])
	}
}

// judgePassage reports discouraged words, and long sentences of prose. It returns the number of prose sentences and
// of their words.
func (c *checker) judgePassage(path string, p *passage) (sentences, total int) {
	for i, re := range c.patterns {
		for _, at := range re.FindAllStringIndex(p.text, -1) {
			if !c.isExcused(path, p.text) {
				c.report("%s:%d: %q: write %s", path, p.lineOf(at[0]), strings.TrimSpace(p.text[at[0]:at[1]]), words[i].better)
			}
		}
	}
	if !p.prose {
		return 0, 0
	}
	for rest, at := p.text, 0; rest != ""; {
		end := len(rest)
		if m := sentence.FindStringIndex(rest); m != nil {
			end = m[1]
		}
		n := len(strings.Fields(brackets.ReplaceAllString(rest[:end], "")))
		if n > longest && !c.isExcused(path, rest[:end]) {
			c.report("%s:%d: a sentence of %d words: split it", path, p.lineOf(at), n)
		}
		if n > 0 {
			sentences, total = sentences+1, total+n
		}
		rest, at = rest[end:], at+end
	}
	return sentences, total
}

// checkFixes reports error formats that contain a fix, which belongs in WithFix.
func (c *checker) checkFixes(path string, source []byte) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return // goStrings reports the error
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if name != "Errorf" {
			return true
		}
		for _, arg := range call.Args {
			if holdsFix(arg) {
				c.report("%s:%d: an error's format holds \"; \": give what to do about it to WithFix", path, set.Position(arg.Pos()).Line)
			}
		}
		return true
	})
}

// holdsFix reports whether a string, or part of a concatenation, contains "; ".
func holdsFix(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return holdsFix(e.X) || holdsFix(e.Y)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return err == nil && e.Kind == token.STRING && strings.Contains(text, "; ")
	}
	return false
}

func (c *checker) isExcused(path, text string) bool {
	for i, e := range exceptions {
		if strings.HasPrefix(path, e.file) && strings.Contains(text, e.text) {
			c.used[i] = true
			return true
		}
	}
	return false
}

// skipped lists folders without texts for users.
var skipped = map[string]bool{"testdata": true, "bin": true, "dist": true, "gpu-bundle": true, "node_modules": true, "shared": true, "scripts": true}

// extractorOf returns the function that extracts a file's texts; nil for a file without texts for users.
func extractorOf(path string) func(string, []byte) ([]passage, error) {
	switch filepath.Ext(path) {
	case ".go":
		if !strings.HasSuffix(path, "_test.go") {
			return goStrings
		}
	case ".tmpl", ".js", ".py":
		return scriptStrings
	case ".md":
		if path != "THIRD_PARTY_NOTICES.md" {
			return markdownTexts
		}
	}
	return nil
}

// goStrings returns the strings of a Go file, with concatenated strings as one text. It leaves out imports and
// one-word strings, which are names.
func goStrings(path string, source []byte) ([]passage, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return nil, err
	}
	var out []passage
	var walk func(ast.Node) bool
	var join func(*passage, ast.Expr)
	join = func(p *passage, e ast.Expr) {
		switch n := e.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				join(p, n.X)
				join(p, n.Y)
				return
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				p.text = strings.TrimSuffix(p.text, " ")
				if strings.HasPrefix(n.Value, "`") {
					p.add(set.Position(n.Pos()).Line, s)
				} else {
					p.add(set.Position(n.Pos()).Line, strings.ReplaceAll(s, "\n", " "))
				}
				return
			}
		}
		p.text = strings.TrimSuffix(p.text, " ")
		p.add(set.Position(e.Pos()).Line, "%v")
		ast.Inspect(e, walk)
	}
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // a struct tag may contain texts, such as help
			if n.Tag != nil {
				for _, value := range quotes.FindAllString(strings.Trim(n.Tag.Value, "`"), -1) {
					if value = strings.Trim(value, `"`); strings.Contains(value, " ") {
						var p passage
						p.add(set.Position(n.Tag.Pos()).Line, value)
						out = append(out, p)
					}
				}
				n.Tag = nil
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if b, ok := n.(*ast.BinaryExpr); ok && b.Op != token.ADD {
				return true
			}
			if l, ok := n.(*ast.BasicLit); ok && l.Kind != token.STRING {
				return false
			}
			var p passage
			join(&p, n.(ast.Expr))
			if strings.Contains(strings.TrimSpace(p.text), " ") {
				out = append(out, p)
			}
			return false
		}
		return true
	}
	ast.Inspect(file, walk)
	return out, nil
}

var (
	quotes  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`")
	actions = regexp.MustCompile(`\{\{.*?\}\}|<[^>]*>`)
)

// scriptStrings returns the lines of a template, or the strings on the lines of a script.
func scriptStrings(path string, source []byte) ([]passage, error) {
	var out []passage
	for i, l := range strings.Split(string(source), "\n") {
		texts := []string{actions.ReplaceAllString(l, " ")}
		if filepath.Ext(path) != ".tmpl" {
			texts = nil
			if t := strings.TrimSpace(l); !strings.HasPrefix(t, "//") && !strings.HasPrefix(t, "#") {
				texts = quotes.FindAllString(l, -1)
			}
		}
		for _, t := range texts {
			var p passage
			p.add(i+1, strings.Trim(t, "\"'` "))
			out = append(out, p)
		}
	}
	return out, nil
}

var (
	sentence = regexp.MustCompile(`[.!?]\s`)
	brackets = regexp.MustCompile(`\([^)]*\)`)

	begins = regexp.MustCompile(`^\s*(?:[-*>#] ?|\d+\. )`)
	spans  = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")
)

// markdownTexts returns paragraphs, list items and cells outside of fences, with masked code and addresses.
func markdownTexts(_ string, source []byte) ([]passage, error) {
	var out []passage
	fenced, open := false, false
	for i, l := range strings.Split(string(source), "\n") {
		switch t := strings.TrimSpace(l); {
		case strings.HasPrefix(t, "```"):
			fenced, open = !fenced, false
		case fenced:
		case t == "" || strings.HasPrefix(t, "<!--") || strings.HasPrefix(l, "    ") && !open || strings.HasPrefix(l, "\t"):
			open = false
		case strings.HasPrefix(t, "|"):
			open = false
			for cell := range strings.SplitSeq(strings.Trim(t, "|"), " | ") {
				out = append(out, passage{})
				out[len(out)-1].add(i+1, strings.TrimSpace(cell))
			}
		default:
			if at := begins.FindString(l); !open || at != "" {
				out, open = append(out, passage{prose: true}), !strings.HasPrefix(t, "#")
				l = l[len(at):]
			}
			out[len(out)-1].add(i+1, strings.TrimSpace(l))
		}
	}
	for i := range out {
		out[i].text = spans.ReplaceAllStringFunc(out[i].text, func(s string) string { return strings.Repeat("x", len(s)) })
	}
	return out, nil
}
