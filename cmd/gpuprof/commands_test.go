//go:build !race

// One goroutine parses commands and runs verbs in this process: the detector has nothing to find here.

package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	made "github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// parsed is the error of a whole command that is to be copied, by the parser of the program; old spellings are errors.
func parsed(t *testing.T, command string) error {
	t.Helper()
	var stderr strings.Builder
	a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: &stderr}
	_, err := parse(a, shellWords(command)[1:])
	if strings.Contains(stderr.String(), " is now ") {
		t.Errorf("%s: %s", command, &stderr)
	}
	return err
}

// steps are the commands of gpuprof in a line for a shell.
func steps(line string) (out []string) {
	for part := range strings.SplitSeq(line, " && ") {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, "gpuprof ") {
			out = append(out, part)
		}
	}
	return out
}

// members are the texts of JSON under keys, with the key.
func members(v any, under string, found func(key, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			members(x, k, found)
		}
	case []any:
		for _, x := range v {
			members(x, under, found)
		}
	case string:
		found(under, v)
	}
}

// documents are command lines that print documents of fixtures, as JSON.
func documents(t *testing.T) (out [][]string) {
	t.Helper()
	for _, of := range []struct {
		verb, pattern string
	}{{"analyze", "traces/*-fires.json"}, {"analyze", "memory/[clo]*.pickle.gz"}, {"report", "gallery/*.json*"}} {
		files, err := filepath.Glob(filepath.Join("..", "..", "testdata", of.pattern))
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %d files, %v", of.pattern, len(files), err)
		}
		for _, f := range files {
			out = append(out, []string{of.verb, f})
		}
	}
	dir := t.TempDir()
	for name, doc := range map[string]any{"fleet": made.Fleet(), "straggling": made.Straggling(), "devices": made.Devices(), "claims": made.Claimed(), "tune": made.Tuned(), "history": made.History(),
		"diagnosis": made.Diagnosis(), "gate": made.GateUnsure(), "regressed": made.GateRegressed(), "check": &gpuprof.CheckReport{Head: document.NewHead(document.Check, gpuprof.Tool{}), Workload: "e3nn", Cases: made.Cases()},
		"health": &health.Report{Head: document.NewHead(document.Health, gpuprof.Tool{}), Verdict: health.NotChecked, Reason: "gpu0: no fault source was read", Devices: []health.Card{{Device: "gpu0"}}}} {
		var text strings.Builder
		if err := document.Encode(&text, doc); err != nil {
			t.Fatal(name, err)
		}
		out = append(out, []string{"report", written(t, dir, name, text.String())})
	}
	var sweep strings.Builder
	if err := document.EncodeRuns(&sweep, made.Loaded()...); err != nil {
		t.Fatal(err)
	}
	out = append(out, []string{"report", written(t, dir, "sweep", sweep.String())})
	traces := filepath.Join("..", "..", "testdata", "traces")
	out = append(out, []string{"analyze", "--compare", filepath.Join(traces, "dataloader-stall-fires.json"), filepath.Join(traces, "dataloader-stall-quiet.json")})
	gallery := filepath.Join("..", "..", "testdata", "gallery")
	csr, unfused := filepath.Join(gallery, "e3nn-csr.json.gz"), filepath.Join(gallery, "e3nn-unfused.json.gz")
	return append(out, []string{"compare", csr, unfused}, []string{"gate", csr, unfused}, []string{"gate", csr, csr}, []string{"doctor"})
}

func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name+".json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answerCommand is the command of a document's answer; "" without one.
func answerCommand(doc any) string {
	d, _ := doc.(map[string]any)
	answer, _ := d["answer"].(map[string]any)
	action, _ := answer["action"].(map[string]any)
	command, _ := action["command"].(string)
	return command
}

// Every command that a document has parses by the program's own parser: those of findings, actions and next steps
// whole, those inside of a sentence by their verb and their flags. Those that compare are run. The command of
// the answer is the same on the terminal and on the page: one line, as it is to be copied.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	verbs := newVerbs(t)
	whole, named, ran, copied := map[string]bool{}, 0, 0, map[any]bool{}
	shown := filepath.Join(t.TempDir(), "shown")
	for _, args := range documents(t) {
		outputs := []string{"-o", shown + ".json", "-o", shown + ".txt", "-o", shown + ".html", "--force"}
		_ = gpuprofRan(t, io.Discard, io.Discard, slices.Concat(args, outputs)...) // a verdict is no failure
		out, err := os.ReadFile(shown + ".json")
		if err != nil {
			t.Fatal(args, err)
		}
		var doc any
		if err := json.Unmarshal(out, &doc); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if command := answerCommand(doc); command != "" {
			copied[doc.(map[string]any)["kind"]] = true
			for ext, line := range map[string]string{".txt": "\n   " + command + "\n", ".html": ">" + command + "</code>"} {
				text, err := os.ReadFile(shown + ext)
				if err != nil || !strings.Contains(html.UnescapeString(string(text)), line) {
					t.Errorf("%v: %s lacks the line %q, %v", args, ext, line, err)
				}
			}
		}
		members(doc, "", func(key, text string) {
			if key == "command" && strings.HasPrefix(text, "gpuprof ") {
				whole[text] = true
				return
			}
			if slices.Contains([]string{"fix", "next", "text", "sentence", "reason"}, key) {
				named += verbs.check(t, strings.Join(args, " "), text)
			}
		})
	}
	for line := range whole {
		for _, command := range steps(line) {
			if err := parsed(t, command); err != nil {
				t.Errorf("%s: %v", command, err)
			}
			if words := shellWords(command); words[1] == "analyze" && words[2] == "--compare" {
				ran++
				if code := gpuprofRan(t, io.Discard, io.Discard, "analyze", "--compare", pathOfTrace(words[3]), pathOfTrace(words[3])); code != cli.ExitOK {
					t.Errorf("%s: exit code %d", command, code)
				}
			}
		}
	}
	if len(whole) < 15 || named < 3 || ran < 10 || len(copied) < 8 {
		t.Errorf("only %d commands, %d in sentences and %d to run were found, and answers of %v with one", len(whole), named, ran, copied)
	}
}

// pathOfTrace is the path of a file as a command names it from elsewhere.
func pathOfTrace(path string) string {
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return filepath.Join("..", "..", "testdata", "traces", filepath.Base(path))
}

// Commands in the golden texts of the terminal and of Markdown name verbs and flags that there are.
func TestCommandsOfGoldenOutputs(t *testing.T) {
	verbs, n := newVerbs(t), 0
	for _, pattern := range []string{"table/testdata/*.txt", "markdown/testdata/*.md", "github/testdata/*.txt"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "report", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			n += verbs.check(t, f, string(text))
		}
	}
	if n < 50 {
		t.Errorf("only %d commands were found", n)
	}
}

// Commands in the texts of the code - hints of errors, help, warnings, next steps - name verbs and flags that there are.
func TestCommandsInTexts(t *testing.T) {
	verbs, n := newVerbs(t), 0
	pos := token.NewFileSet()
	for _, dir := range []string{"cmd", "internal", "report", "workloads", "probes"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(pos, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(x ast.Node) bool {
				if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						n += verbs.check(t, pos.Position(lit.Pos()).String(), text)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 200 {
		t.Errorf("only %d commands were found", n)
	}
}

// verbTable has the verbs and their flags.
type verbTable struct{ root *kong.Node }

func newVerbs(t *testing.T) verbTable {
	t.Helper()
	var c grammar
	k, _, err := newParser(&cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}, &c)
	if err != nil {
		t.Fatal(err)
	}
	return verbTable{k.Model.Node}
}

// spoken is a command inside of a text: its words up to the end of the clause.
var spoken = regexp.MustCompile("\\bgpuprof ([a-z]+(?: [^;,()`\"'\\n]*)?)")

// check reports a verb of an earlier version and a flag that its verb does not have, and counts the commands of a text.
func (v verbTable) check(t *testing.T, where, text string) (n int) {
	t.Helper()
	for _, m := range spoken.FindAllStringSubmatch(strings.ReplaceAll(text, " gpuprof ", "\ngpuprof "), -1) {
		words := strings.Fields(strings.TrimRight(strings.TrimPrefix(m[1], "help "), ".:?"))
		if len(words) == 0 {
			continue
		}
		if _, renamed := commandline.Current(v.root, words); renamed != nil {
			t.Errorf("%s: %s", where, renamed.Notice())
			continue
		}
		node := commandline.NodeOf(v.root, words[0])
		if node == nil {
			continue // a sentence about the program
		}
		n++
		own := words[1:]
		if d := slices.Index(own, "--"); d >= 0 {
			own = own[:d]
		}
		for _, w := range own {
			if strings.HasPrefix(w, "&") || w == "and" || w == "or" {
				break
			}
			flag, _, _ := strings.Cut(strings.TrimRight(w, ".:?]"), "=")
			if strings.HasPrefix(flag, "--") && len(flag) > 2 && !v.has(words[0], flag) {
				t.Errorf("%s: gpuprof %s has no flag %s", where, words[0], flag)
			}
		}
	}
	return n
}

// has reports whether a verb, a form of it or a verb below it has a flag; --no-x is the negation of --x.
func (v verbTable) has(verb, flag string) bool {
	var below func(n *kong.Node) bool
	below = func(n *kong.Node) bool {
		if commandline.FindFlag(n, flag) != nil || commandline.FindFlag(n, "--"+strings.TrimPrefix(flag, "--no-")) != nil {
			return true
		}
		return slices.ContainsFunc(n.Children, below)
	}
	return slices.ContainsFunc(v.root.Children, func(n *kong.Node) bool {
		return (n.Name == verb || strings.HasPrefix(n.Name, verb+" ")) && below(n)
	})
}
