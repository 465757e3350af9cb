package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestGitLabComponent: the component is YAML with its inputs in place, uses each of them, and its script, run in a
// checkout with a remote, builds gpuprof of the sources it cloned and passes the inputs on as they are.
func TestGitLabComponent(t *testing.T) {
	text, err := os.ReadFile("../../templates/gpuprof.yml")
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.SplitN(text, []byte("\n---\n"), 2)
	var head struct {
		Spec struct {
			Inputs map[string]struct{ Description, Default string }
		}
	}
	if err := yaml.Unmarshal(parts[0], &head); err != nil || len(parts) != 2 || len(head.Spec.Inputs) < 10 {
		t.Fatal(head, err)
	}
	scratch := t.TempDir()
	given := map[string]string{"command": "./bench 'two words' $HOME", "threshold": "7%", "repository": filepath.Join(scratch, "sources"), "against": "origin/main"}
	body := string(parts[1])
	for name, in := range head.Spec.Inputs {
		if in.Description == "" || !strings.Contains(body, "$[[ inputs."+name+" ]]") {
			t.Errorf("the input %s is not used, or has no description", name)
		}
		value, there := given[name]
		if !there {
			value = in.Default
		}
		body = strings.ReplaceAll(body, "$[[ inputs."+name+" ]]", value)
	}
	if left := regexp.MustCompile(`\$\[\[.*?\]\]`).FindString(body); left != "" {
		t.Errorf("an input that is none: %s", left)
	}
	var jobs map[string]struct {
		Stage, Image string
		Variables    map[string]yaml.Node
		Script       []string
	}
	if err := yaml.Unmarshal([]byte(body), &jobs); err != nil {
		t.Fatal(err)
	}
	job, there := jobs["performance"]
	if !there || job.Stage != "test" || job.Image == "" || len(job.Script) == 0 {
		t.Fatalf("%+v", jobs)
	}
	env := []string{"PATH=" + filepath.Join(scratch, "bin") + ":" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch}
	for name, node := range job.Variables {
		value := node.Value
		if node.Kind == yaml.MappingNode {
			var long struct{ Value string }
			if err := node.Decode(&long); err != nil {
				t.Fatal(err)
			}
			value = long.Value
		}
		env = append(env, name+"="+value)
	}
	runInCheckout(t, scratch, env, job.Script)
	got, err := os.ReadFile(filepath.Join(scratch, "checkout", "arguments"))
	want := "<gate><--against=origin/main><--budget=10m><-o><gate.xml><-o><gate.md><-o><gate.json><-o><gate.html><--force><--threshold=7%><--><./bench><two words><$HOME>"
	if err != nil || string(got) != want {
		t.Errorf("gpuprof got %s (%v), want %s", got, err, want)
	}
}

// runInCheckout runs the lines of a script as a runner does: in a clone, with a Go that writes a program which keeps its
// arguments in a file.
func runInCheckout(t *testing.T, scratch string, env, lines []string) {
	t.Helper()
	script, err := os.ReadFile("../../scripts/dist/action.sh")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"sources/scripts/dist/action.sh": string(script),
		"bin/go":                         "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\ncat >\"$2\" <<'END'\n#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done >arguments\nEND\nchmod +x \"$2\"\n",
	} {
		path = filepath.Join(scratch, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const git = "git -c user.name=t -c user.email=t@example.invalid -c init.defaultBranch=main"
	before := "cd sources && " + git + " init -q && git add . && " + git + " commit -q -m one && cd .. && git clone -q sources checkout && cd checkout\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", before+strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = scratch, slices.Concat(env, []string{"GIT_CONFIG_GLOBAL=/dev/null"})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
