package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
)

// ended has the outputs and exit code of a gpuprof process that has ended.
type ended struct {
	out   string // standard output
	words string // end of standard error
	code  int
}

// run runs gpuprof with a command line in a folder; "" means the server's folder. limit is the process's time limit; 0
// means none. The error is not nil if the process has no exit code, because it was killed or did not start.
func (s *server) run(ctx context.Context, folder string, limit time.Duration, args ...string) (ended, error) {
	if folder != "" && !cli.IsDir(folder) {
		return ended{}, gpuprof.Errorf(gpuprof.ErrUsage, "working in %s: it is no folder", folder).WithFix("give a folder that exists")
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(s.ctx, end)()
	out, words, err := child.Command{Args: append([]string{s.exe}, args...), Name: os.Args[0], Dir: folder, Limit: limit}.Run(ctx)
	e := ended{out: strings.TrimSpace(string(out)), words: words}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return e, cli.ErrInterrupted
	case errors.Is(err, child.ErrLong):
		return e, gpuprof.Errorf(gpuprof.ErrInput, "running gpuprof %s: it had not ended after %s and was ended with all that it started", args[0], limit).WithFix("give a longer time_limit, or fewer steps")
	case errors.Is(err, child.ErrMuch):
		return e, gpuprof.Errorf(gpuprof.ErrInput, "running gpuprof %s: it printed too much and was ended", args[0]).WithFix("have the command print less")
	case exited:
		e.code = exit.ExitCode()
	case err != nil:
		return e, gpuprof.Errorf(nil, "starting gpuprof again: %w", err).WithFix("check that %s can be run", s.exe)
	}
	return e, nil
}

// runVerb runs a subcommand that prints one brief document. A document with a verdict is a successful answer, even if
// the verdict set a nonzero exit code.
func (s *server) runVerb(ctx context.Context, folder string, args ...string) (*sdk.CallToolResult, any, error) {
	e, err := s.run(ctx, folder, 0, args...)
	switch {
	case err != nil:
		return failureResult(err), nil, nil
	case e.out != "" && (e.code == cli.ExitOK || e.code == cli.ExitRegression || e.code == cli.ExitInconclusive):
		return textResult(e.out), nil, nil
	}
	r := failedAs(e)
	if e.out != "" { // results that were printed before the failure
		r.Content = append(textResult(e.out).Content, r.Content...)
	}
	return r, nil, nil
}

func textResult(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// failureResult returns the answer to a call that failed with err, as JSON.
func failureResult(err error) *sdk.CallToolResult {
	reason, fix := gpuprof.FixOf(err)
	return complaintResult(cli.Complaint{Message: cli.SentenceOf(reason), Fix: cli.SentenceOf(fix), ExitCode: cli.ExitCode(err)})
}

// Limits of an error's message and its fix, bytes.
const (
	mostMessage = 1600
	mostFix     = 600
)

func complaintResult(c cli.Complaint) *sdk.CallToolResult {
	c.Message, c.Fix, c.Cause = lastBytes(c.Message, mostMessage), firstBytes(c.Fix, mostFix), ""
	b, err := json.Marshal(map[string]cli.Complaint{"error": c})
	if err != nil { // encoding strings and numbers cannot fail
		b = []byte(c.Message)
	}
	r := textResult(string(b))
	r.IsError = true
	return r
}

// failedAs returns the answer for a failed process: the last error that it printed as JSON, or otherwise its last
// message.
func failedAs(e ended) *sdk.CallToolResult {
	c, object := cli.Complaint{ExitCode: e.code}, false
	for line := range strings.Lines(e.words) {
		var said struct{ Error cli.Complaint }
		if json.Unmarshal([]byte(line), &said) == nil && said.Error.Message != "" {
			c, object = said.Error, true
		} else if sentence, ok := strings.CutPrefix(strings.TrimSpace(line), "gpuprof: "); ok && !object {
			c.Message, c.Fix, _ = strings.Cut(sentence, "; ")
		}
	}
	c.Message = cmp.Or(c.Message, cli.SentenceOf(e.words), fmt.Sprintf("gpuprof ended with exit code %d and without a message", e.code))
	return complaintResult(c)
}

// firstBytes returns the beginning of a text, lastBytes its end. If the text has more than most bytes, it is cut to
// that length and marked with "…".
func firstBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

func lastBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "… " + strings.ToValidUTF8(s[len(s)-most:], "")
}

// briefArgs returns the arguments with which a subcommand prints a brief document of about tokens tokens.
func briefArgs(verb string, tokens int) []string {
	args := []string{verb, "--format=brief-json"}
	if tokens != 0 {
		args = append(args, fmt.Sprintf("--max-tokens=%d", tokens))
	}
	return args
}

func addFlag(args []string, name, value string) []string {
	if value == "" {
		return args
	}
	return append(args, "--"+name+"="+value)
}

func addFlags(args []string, name string, values []string) []string {
	for _, v := range values {
		args = append(args, "--"+name+"="+v)
	}
	return args
}

func addSwitch(args []string, name string, is bool) []string {
	if is {
		args = append(args, "--"+name)
	}
	return args
}

// fileArg returns a file name as an argument that can be taken neither for a flag nor for standard input.
func fileArg(p string) string {
	if strings.HasPrefix(p, "-") {
		return "./" + p
	}
	return p
}

func fileArgs(all []string) []string {
	var out []string
	for _, p := range all {
		out = append(out, fileArg(p))
	}
	return out
}

func checkCommand(words []string) error {
	switch {
	case len(words) == 0 || words[0] == "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command: it is empty").WithFix(`give the program and its arguments as a list, such as ["python", "train.py"]`)
	case strings.HasPrefix(words[0], "-"):
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command: %s is a flag and no program", words[0]).WithFix("begin the list with the program")
	}
	return nil
}

// lockMeasure waits until no other call measures. The caller may then measure until it calls done.
func (s *server) lockMeasure(ctx context.Context) (done func(), err error) {
	select {
	case s.measure <- struct{}{}:
		return func() { <-s.measure }, nil
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return nil, cli.ErrInterrupted
}

func tokensOf(asked int) int { return cmp.Or(asked, document.DefaultTokens) }
