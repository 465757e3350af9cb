package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// actionScript is the last script of action.yml, and the whole file.
func actionScript(t *testing.T) (script, whole string) {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	const head = "      run: |\n"
	at := strings.LastIndex(string(text), head)
	if at < 0 {
		t.Fatal("action.yml has no script")
	}
	var b strings.Builder
	for line := range strings.Lines(string(text[at+len(head):])) {
		b.WriteString(strings.TrimPrefix(line, "        "))
	}
	return b.String(), string(text)
}

// TestActionInputs: every input is used, and none is pasted into a script, where
// it could be one of its commands.
func TestActionInputs(t *testing.T) {
	script, whole := actionScript(t)
	if strings.Contains(script, "${{") {
		t.Error("the script has an expression in it")
	}
	inputs := regexp.MustCompile(`(?m)^  ([a-z-]+): \{description:`).FindAllStringSubmatch(whole, -1)
	if len(inputs) < 6 {
		t.Fatalf("%d inputs found", len(inputs))
	}
	use := regexp.MustCompile(`(?m)^ +([A-Z]+|working-directory): \$\{\{ inputs\.([a-z-]+) \}\}$`)
	used := map[string]string{}
	for _, m := range use.FindAllStringSubmatch(whole, -1) {
		used[m[2]] = m[1]
	}
	for _, in := range inputs {
		name := used[in[1]]
		if name == "" || name != "working-directory" && !strings.Contains(script, "$"+name) {
			t.Errorf("the input %s is not used", in[1])
		}
	}
}

// TestActionScript: the inputs reach gpuprof as they were given, whatever a branch
// is called, and the words of a command as a shell would split them.
func TestActionScript(t *testing.T) {
	script, _ := actionScript(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gpuprof"), []byte("#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const always = "<gate><--against=main><--budget=10m><-o><gate.xml><-o><gate.md><--force>"
	for name, c := range map[string]struct {
		env  []string // beside AGAINST=main
		want string   // "" is refused: exit code 2, and gpuprof is not started
	}{
		"nothing else":                 {nil, always},
		"a command":                    {[]string{"COMMAND=./bench --filter 'two words' \"a;b\" $HOME `id` *", "BUILD=make -j2 && echo"}, always + "<--build=make -j2 && echo><--><./bench><--filter><two words><a;b><$HOME><`id`><*>"},
		"a workload":                   {[]string{"WORKLOAD=e3nn", "DEVICE=cuda:1", "ARGUMENTS=--set batch=4\n--threshold 7%\n"}, always + "<e3nn><--device=cuda:1><--set><batch=4><--threshold><7%>"},
		"a quote left open":            {[]string{"COMMAND=./bench 'x"}, ""},
		"an argument's quote open":     {[]string{"ARGUMENTS=--threshold \"7%"}, ""},
		"a workload that is a flag":    {[]string{"WORKLOAD=--build=touch pwned"}, ""},
		"a workload of one dash":       {[]string{"WORKLOAD=-o"}, ""},
		"a workload of two dashes":     {[]string{"WORKLOAD=--", "ARGUMENTS=touch pwned"}, ""},
		"a command among arguments":    {[]string{"ARGUMENTS=--threshold 7% -- touch pwned"}, ""},
		"a command that is a flag":     {[]string{"COMMAND=--build=x"}, always + "<--><--build=x>"},
		"spaces only":                  {[]string{"COMMAND= \n ", "ARGUMENTS=\t"}, always},
		"a hostile branch":             {[]string{"AGAINST=--build=$(touch pwned);`touch pwned` -- 'x"}, strings.Replace(always, "=main", "=--build=$(touch pwned);`touch pwned` -- 'x", 1)},
		"a branch called a dash twice": {[]string{"AGAINST=--"}, strings.Replace(always, "=main", "=--", 1)},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + dir, "AGAINST=main", "BUDGET=10m", "BUILD=", "COMMAND=", "WORKLOAD=", "DEVICE=host", "ARGUMENTS="}, c.env...)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 2 && c.want == "" || code != 0 && c.want != "" {
			t.Errorf("%s: exit code %d: %v", name, code, err)
		}
		if d := cmp.Diff(c.want, string(out)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("a branch's name was run")
	}
}

// TestActionsPinned: a workflow takes actions by their commit, which cannot be moved
// to other code, and the version stands beside it; so do the examples in the docs, all
// of one version.
func TestActionsPinned(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	uses := regexp.MustCompile(`(?m)^[ -]*uses: .*$`)
	pinned := regexp.MustCompile(`uses: ([\w-]+/[\w-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	at := map[string]string{}
	examples := 0
	for _, file := range slices.Concat(files, docs, []string{"../../action.yml", "../../README.md"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range uses.FindAllString(string(text), -1) {
			if strings.Contains(line, "uses: gpuprof/gpuprof@") {
				continue // this repository's own
			}
			m := pinned.FindStringSubmatch(line)
			switch {
			case m == nil:
				t.Errorf("%s: %s", file, line)
				continue
			case at[m[1]] == "":
				at[m[1]] = m[2]
			case at[m[1]] != m[2]:
				t.Errorf("%s: %s at %s, elsewhere at %s", file, m[1], m[2], at[m[1]])
			}
			if strings.HasSuffix(file, ".md") {
				examples++
			}
		}
	}
	if examples == 0 {
		t.Error("no example was found in the docs")
	}
}
