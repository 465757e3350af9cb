package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// told returns the error in an answer.
func told(t *testing.T, r *sdk.CallToolResult) cli.Complaint {
	t.Helper()
	var said struct{ Error cli.Complaint }
	part, ok := r.Content[0].(*sdk.TextContent)
	if !ok || !r.IsError {
		t.Fatalf("%+v is no error", r)
	}
	if err := json.Unmarshal([]byte(part.Text), &said); err != nil {
		t.Fatal(err)
	}
	return said.Error
}

// The error of a process is its last: a line of JSON before a sentence, and the last words where there is neither.
func TestFailedAs(t *testing.T) {
	for _, c := range []struct {
		words string
		want  cli.Complaint
	}{
		{"gpuprof: a note\n{\"error\":{\"message\":\"reading x\",\"cause\":\"y\",\"fix\":\"give z\",\"exit_code\":2}}\n", cli.Complaint{Message: "reading x", Fix: "give z", ExitCode: 2}},
		{"gpuprof: a note\ngpuprof: reading x: no; give z\n", cli.Complaint{Message: "reading x: no", Fix: "give z", ExitCode: 4}},
		{"fatal error: out of memory\n", cli.Complaint{Message: "fatal error: out of memory", ExitCode: 4}},
		{"", cli.Complaint{Message: "gpuprof ended with exit code 4 and without a message", ExitCode: 4}},
	} {
		if got := told(t, failedAs(ended{words: c.words, code: 4})); got != c.want {
			t.Errorf("%q is told as %+v, want %+v", c.words, got, c.want)
		}
	}
	long := told(t, failedAs(ended{words: strings.Repeat("€", 5000), code: 4}))
	if len(long.Message) > mostMessage+8 || !strings.HasPrefix(long.Message, "… €") {
		t.Errorf("a long message has %d bytes: %.20s", len(long.Message), long.Message)
	}
}

// What a program printed is told apart from the notes and the table of gpuprof run.
func TestProgramOf(t *testing.T) {
	words := "warming up\ngpuprof: waiting for a step\nTraceback\nValueError: no\ngpuprof: python ended with exit code 1 after 2 s; 1 CPU cores on average\n" +
		"gpuprof: recorded 5 optimizer steps\n1. high item: text of a finding\ngpuprof: everything is in profile\n"
	got := programOf(ended{out: "epoch 1", words: words, code: 1}, "profile")
	if want := "epoch 1 warming up Traceback ValueError: no"; got.Said != want || got.ExitCode != 1 {
		t.Errorf("the program said %q, want %q", got.Said, want)
	}
	if want := []string{"python ended with exit code 1 after 2 s; 1 CPU cores on average", "recorded 5 optimizer steps"}; !slices.Equal(got.Notes, want) {
		t.Errorf("the notes are %q, want %q", got.Notes, want)
	}
}

// No name of a file is a flag or standard input.
func TestPath(t *testing.T) {
	for in, want := range map[string]string{"-": "./-", "--help": "./--help", "a/-b": "a/-b", "/x": "/x", "": ""} {
		if got := fileArg(in); got != want {
			t.Errorf("%q is given as %q, want %q", in, got, want)
		}
	}
}
