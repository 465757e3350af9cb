//go:build !race

// The server is a process that is not built with the race detector, and starts processes for most tools.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/brief"
)

// agentHost is a client of gpuprof mcp, started in dir.
func agentHost(t *testing.T, dir string, env ...string) *mcp.ClientSession {
	t.Helper()
	cmd := selfCommand(t, dir, "mcp")
	cmd.Env = append(cmd.Env, env...)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // a test may have closed it
	return session
}

// fixturePath is a file of testdata.
func fixturePath(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repository is a checkout with one commit of files.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		gitIn(t, dir, args...)
	}
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t.invalid"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// arguments are the arguments of a call.
type arguments map[string]any

// answer calls a tool and gives its text, which keeps its limit of tokens.
func answer(t *testing.T, s *mcp.ClientSession, tool string, in arguments) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, in, err)
	}
	for _, c := range r.Content {
		part, ok := c.(*mcp.TextContent)
		if !ok {
			t.Fatalf("%s answered %T", tool, c)
		}
		text += part.Text
	}
	most, ok := in["max_tokens"].(int)
	if !ok || most < document.LeastTokens {
		most = document.DefaultTokens
	}
	if n := document.Tokens(len(text)); n > most || r.StructuredContent != nil {
		t.Errorf("%s %v answered %d tokens of %d", tool, in, n, most)
	}
	return text, r.IsError
}

// The handshake, and what an agent reads before it calls a tool.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	s := agentHost(t, t.TempDir())
	if info := s.InitializeResult(); info.ServerInfo.Name != "gpuprof" || !strings.Contains(info.Instructions, "gate") {
		t.Errorf("the server is %+v", info)
	}
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		starts := tool.Name == "gate" || tool.Name == "run_program"
		if a := tool.Annotations; a == nil || a.ReadOnlyHint == starts || a.DestructiveHint == nil || *a.DestructiveHint != starts {
			t.Errorf("%s has the hints %+v", tool.Name, a)
		}
		if len(tool.Description) < 60 {
			t.Errorf("%s has the description %q", tool.Name, tool.Description)
		}
		text, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(text, &schema); err != nil || len(schema.Properties) < 2 || schema.Properties["max_tokens"].Description == "" {
			t.Errorf("%s takes %s (%v)", tool.Name, text, err)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s does not describe %s", tool.Name, name)
			}
		}
	}
	slices.Sort(names)
	if want := []string{"analyze", "compare", "doctor", "explain", "gate", "memory", "run_program"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %v, want %v", names, want)
	}
}

// Each tool that reads answers with a brief document within its limit.
func TestMCPReads(t *testing.T) {
	t.Parallel()
	s := agentHost(t, t.TempDir())
	large := fixturePath(t, "traces", "h100", "dataloader-planted.json.gz")
	for _, c := range []struct {
		tool string
		in   arguments
		of   gpuprof.DocumentKind
		want string
	}{
		{"analyze", arguments{"paths": []string{large}}, document.Analysis, `"id":"dataloader-stall"`},
		{"analyze", arguments{"paths": []string{large}, "max_tokens": document.LeastTokens}, document.Analysis, `"what":"operators"`},
		{"analyze", arguments{"paths": []string{"dataloader-planted.json.gz"}, "folder": filepath.Dir(large), "steps": "4..5"}, document.Analysis, `"findings"`},
		{"analyze", arguments{"paths": []string{fixturePath(t, "traces", "item-fires.json"), fixturePath(t, "traces", "item-quiet.json")}, "compare": true}, document.TraceComparison, `"outcome":"gone"`},
		{"compare", arguments{"old": fixturePath(t, "gallery", "e3nn-unfused.json.gz"), "new": fixturePath(t, "gallery", "e3nn-csr.json.gz")}, document.Comparison, `"verdict":"`},
		{"memory", arguments{"paths": []string{fixturePath(t, "memory", "leak.pickle.gz")}, "what_if": []string{"max_split_size_mb:64"}}, document.Memory, `"id":"leak"`},
		{"explain", arguments{"name": "exposed time"}, "explanation", `"name":"exposed time"`},
		{"doctor", arguments{}, document.Diagnosis, `"checks":[`},
	} {
		text, failed := answer(t, s, c.tool, c.in)
		var d brief.Document
		if err := json.Unmarshal([]byte(text), &d); err != nil || failed || d.Kind != document.Brief || d.Of != c.of || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %v, error %v, want %q of %s in\n%s", c.tool, c.in, err, failed, c.want, c.of, text)
		}
	}
}

// Bad input is an error of the tool: the sentence of the verb and its exit code. The server goes on.
func TestMCPRefuses(t *testing.T) {
	t.Parallel()
	dir := repository(t, map[string]string{"bench": "#!/bin/sh\nexit 3\n"})
	s := agentHost(t, dir)
	trace := fixturePath(t, "traces", "item-fires.json")
	for _, c := range []struct {
		tool string
		in   arguments
		code int
		want string
	}{
		{"analyze", arguments{"paths": []string{"gone.json"}}, cli.ExitUsage, "gone.json"},
		{"analyze", arguments{"paths": []string{}}, cli.ExitUsage, "paths is empty"},
		{"analyze", arguments{"paths": []string{"-"}}, cli.ExitUsage, "./-"},
		{"analyze", arguments{"paths": []string{"--help"}}, cli.ExitUsage, "./--help"},
		{"analyze", arguments{"paths": []string{trace}, "steps": "x"}, cli.ExitUsage, "x"},
		{"analyze", arguments{"paths": []string{trace}, "max_tokens": 5}, cli.ExitUsage, "give 600 or more"},
		{"analyze", arguments{"paths": []string{trace}, "folder": "gone"}, cli.ExitUsage, "it is no folder"},
		{"compare", arguments{"old": trace, "new": "gone.json"}, cli.ExitUsage, "gone.json"},
		{"compare", arguments{"old": trace, "new": trace, "threshold": "5"}, cli.ExitUsage, "5%"},
		{"memory", arguments{"paths": []string{trace}, "at": "peak"}, cli.ExitUsage, "no memory snapshot"},
		{"explain", arguments{"name": "itm"}, cli.ExitUsage, "item"},
		{"explain", arguments{"name": "--help"}, cli.ExitUsage, "it is no name"},
		{"doctor", arguments{"max_tokens": 1}, cli.ExitUsage, "600"},
		{"gate", arguments{"against": "nonsense", "command": []string{"./bench"}}, cli.ExitUsage, "no git revision"},
		{"gate", arguments{"against": "", "command": []string{"./bench"}}, cli.ExitUsage, "against is empty"},
		{"gate", arguments{"against": "HEAD", "command": []string{}}, cli.ExitUsage, "it is empty"},
		{"gate", arguments{"against": "HEAD", "command": []string{"./bench"}, "budget": "never"}, cli.ExitUsage, "never"},
		{"gate", arguments{"against": "HEAD", "command": []string{"./bench"}, "budget": "1ms"}, cli.ExitFailed, "bench failed"},
		{"run_program", arguments{"command": []string{"./gone"}}, cli.ExitUsage, "gone"},
		{"run_program", arguments{"command": []string{"--help"}}, cli.ExitUsage, "a flag and no program"},
		{"run_program", arguments{"command": []string{"./bench"}, "steps": -1}, cli.ExitUsage, "at least one step"},
		{"run_program", arguments{"command": []string{"./bench"}, "time_limit": "0s"}, cli.ExitUsage, "no time above 0"},
		{"run_program", arguments{"command": []string{"./bench"}, "max_tokens": 700}, cli.ExitUsage, "at least"},
		{"run_program", arguments{"command": []string{"sleep", "600"}, "time_limit": "1ms"}, cli.ExitFailed, "had not ended after 1ms"},
		{"run_program", arguments{"command": []string{"./bench"}}, cli.ExitFailed, "nothing of it was recorded"},
	} {
		text, failed := answer(t, s, c.tool, c.in)
		var said struct{ Error cli.Complaint }
		if err := json.Unmarshal([]byte(text), &said); err != nil || !failed || said.Error.ExitCode != c.code || said.Error.Fix == "" || !strings.Contains(said.Error.Message+said.Error.Fix, c.want) {
			t.Errorf("%s %v: %v, error %v, want exit code %d and %q in %s", c.tool, c.in, err, failed, c.code, c.want, text)
		}
	}
	for _, in := range []arguments{{"pathz": "x"}, {}, {"paths": "x"}} {
		if text, failed := answer(t, s, "analyze", in); !failed || text == "" {
			t.Errorf("analyze %v answers %q", in, text)
		}
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "gone"}); err == nil {
		t.Error("a tool that does not exist answers")
	}
	if text, failed := answer(t, s, "explain", arguments{"name": "item"}); failed {
		t.Errorf("after all of this: %s", text)
	}
}

// run_program and gate on programs: the recording and its findings, and a verdict.
func TestMCPMeasures(t *testing.T) {
	t.Parallel()
	dir := repository(t, map[string]string{
		"train": "#!/bin/sh\nTORCHSTUB_TRACE=" + fixturePath(t, "traces", "item-fires.json") + " exec python3 train.py\n",
		"train.py": "import torch\nmodel = torch.nn.Linear()\noptimizer = torch.optim.SGD(model.parameters())\n" +
			"for i in range(18):\n    optimizer.zero_grad()\n    model(i)\n    optimizer.step()\nprint('trained')\n",
		"bench": "#!/bin/sh\necho 'BenchmarkA 100 1000 ns/op'\n",
	})
	s := agentHost(t, dir, "PYTHONPATH="+fixturePath(t, "torchstub"), "PYTHONDONTWRITEBYTECODE=1")
	text, failed := answer(t, s, "run_program", arguments{"command": []string{"./train"}, "output": "recorded"})
	var ran struct {
		Program struct {
			Recording string
			ExitCode  int `json:"exit_code"`
			Notes     []string
			Said      string
			Whole     string
		}
		Analysis brief.Document
	}
	if err := json.Unmarshal([]byte(text), &ran); err != nil || failed {
		t.Fatalf("%v, error %v: %s", err, failed, text)
	}
	if p := ran.Program; p.Recording != "recorded" || p.ExitCode != 0 || p.Said != "trained" || len(p.Notes) == 0 || p.Whole != "gpuprof://document/recorded/analysis.json" {
		t.Errorf("the program is told as %+v", p)
	}
	if len(ran.Analysis.Findings) == 0 || ran.Analysis.Findings[0].ID != gpuprof.RuleItem {
		t.Errorf("the findings are %+v", ran.Analysis.Findings)
	}
	whole, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: ran.Program.Whole})
	if err != nil || !strings.Contains(whole.Contents[0].Text, `"operators"`) {
		t.Errorf("the whole document: %v", err)
	}
	if text, failed := answer(t, s, "run_program", arguments{"command": []string{"./train"}, "output": "recorded"}); !failed || !strings.Contains(text, "it is not empty") {
		t.Errorf("into the folder of an older recording: %s", text)
	}
	text, failed = answer(t, s, "gate", arguments{"against": "HEAD", "command": []string{"./bench"}, "budget": "1ms", "output": "gate.json"})
	var d brief.Document
	if err := json.Unmarshal([]byte(text), &d); err != nil || failed || d.Of != document.Gate || d.Verdict == "" || d.ExitCode == nil {
		t.Errorf("the gate answers %v, error %v: %s", err, failed, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "gate.json")); err != nil {
		t.Error(err)
	}
}

// Resources are the text of each rule, the schemas and whole documents.
func TestMCPResources(t *testing.T) {
	t.Parallel()
	s := agentHost(t, t.TempDir())
	has := map[string]bool{}
	for r, err := range s.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		has[r.URI] = true
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
		if err != nil || len(read.Contents) != 1 || len(read.Contents[0].Text) < 60 {
			t.Errorf("%s: %v", r.URI, err)
		}
	}
	for _, r := range gpuprof.Rules() {
		if !has["gpuprof://rule/"+r.ID] {
			t.Errorf("the rule %s is no resource", r.ID)
		}
	}
	for _, name := range []string{"brief", "analysis", "comparison", "run"} {
		if !has["gpuprof://schema/"+name] {
			t.Errorf("the schema of %s is no resource", name)
		}
	}
	for _, path := range []string{fixturePath(t, "traces", "item-fires.json"), fixturePath(t, "gallery", "e3nn-csr.json.gz"), fixturePath(t, "memory", "leak.pickle.gz")} {
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "gpuprof://document/" + path})
		if err != nil || !json.Valid([]byte(read.Contents[0].Text)) || !strings.Contains(read.Contents[0].Text, `"schema_version"`) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, uri := range []string{"gpuprof://document//gone.json", "gpuprof://document/" + fixturePath(t, "README.md"), "gpuprof://rule/gone"} {
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s is read", uri)
		}
	}
}

// alive is a named pipe that a program under test holds open; the returned functions wait until the program runs,
// and until it and all that it started are gone.
func alive(t *testing.T, dir string) (runs, gone func()) {
	t.Helper()
	path := filepath.Join(dir, "alive")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var f *os.File
	var lines *bufio.Reader
	return func() {
			t.Helper()
			var err error
			if f, err = os.Open(path); err != nil { // waits for the program
				t.Fatal(err)
			}
			lines = bufio.NewReader(f)
			if line, err := lines.ReadString('\n'); err != nil || line != "runs\n" {
				t.Fatalf("the program said %q (%v)", line, err)
			}
		}, func() {
			t.Helper()
			defer f.Close()
			if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // ends with the last process that holds it
				t.Errorf("the program said %q (%v)", rest, err)
			}
		}
}

// A program that starts another one in a session of its own, and waits for it.
const lasting = "#!/bin/sh\nexec 3>%s/alive\nsetsid sleep 600 &\necho runs >&3\nwait\n"

// A call that is cancelled ends what it started; the server goes on.
func TestMCPCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, gone := alive(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "lasts"), []byte(strings.ReplaceAll(lasting, "%s", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	s := agentHost(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "run_program", Arguments: arguments{"command": []string{"./lasts"}}})
		over <- err
	}()
	runs()
	cancel()
	if err := <-over; err == nil {
		t.Error("a cancelled call answers")
	}
	gone()
	if text, failed := answer(t, s, "explain", arguments{"name": "item"}); failed {
		t.Errorf("the server answers %s", text)
	}
}

// A host that hangs up leaves neither a process nor a checkout.
func TestMCPHangUp(t *testing.T) {
	t.Parallel()
	beside := t.TempDir()
	runs, gone := alive(t, beside)
	dir := repository(t, map[string]string{"bench": strings.ReplaceAll(lasting, "%s", beside)})
	scratch := t.TempDir()
	cmd := selfCommand(t, dir, "mcp")
	cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
	var answers, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &answers, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"gate","arguments":{"against":"HEAD","command":["./bench"]}}}`,
	} {
		if _, err := io.WriteString(in, message+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	runs()
	if !strings.Contains(gitIn(t, dir, "worktree", "list"), scratch) {
		t.Error("no checkout while the gate measures")
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || said.Len() > 0 || !strings.Contains(answers.String(), `\"exit_code\":130`) {
		t.Errorf("the server ended with %v, %s: %s", err, &said, &answers)
	}
	gone()
	if list := gitIn(t, dir, "worktree", "list"); strings.Contains(list, scratch) {
		t.Errorf("a checkout is left:\n%s", list)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
}
