package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

type programIn struct {
	Command   []string `json:"command" jsonschema:"Program and arguments as a list, such as [\"python\", \"train.py\"]. No shell reads it."`
	Steps     int      `json:"steps,omitempty" jsonschema:"Record so many steps. Default 5."`
	Skip      *int     `json:"skip,omitempty" jsonschema:"Leave out so many steps before them. Default 10."`
	Memory    bool     `json:"memory,omitempty" jsonschema:"Record a snapshot of PyTorch's memory in place of a trace."`
	Shapes    bool     `json:"shapes,omitempty" jsonschema:"Record the shapes of operators, for the roofline. Slows the recorded steps down."`
	Stacks    bool     `json:"stacks,omitempty" jsonschema:"Record Python stacks, so that findings about the GPU name lines. Slows the recorded steps down."`
	StopAfter bool     `json:"stop_after,omitempty" jsonschema:"End the program once its steps are recorded."`
	Output    string   `json:"output,omitempty" jsonschema:"New folder for the recording. Default: gpuprof-TIME in folder."`
	TimeLimit string   `json:"time_limit,omitempty" jsonschema:"End the program after this time, such as 5m. Default 30m."`
	where
}

// program describes how a recorded command ended.
type program struct {
	Recording string   `json:"recording"` // folder of the recording
	ExitCode  int      `json:"exit_code"`
	Notes     []string `json:"notes,omitempty"` // notes that gpuprof printed about the recording
	Said      string   `json:"said,omitempty"`  // end of the program's output
	Whole     string   `json:"whole,omitempty"` // resource with the complete analysis
}

// Limits: bytes of the end of a program's output after success and after failure; number of notes; bytes of a note.
const (
	saidKept   = 240
	failedKept = 900
	notesKept  = 6
	noteKept   = 200
	// leastForProgram is the smallest token limit that has room for the description of a program and an analysis.
	leastForProgram = 1400
	usualLimit      = 30 * time.Minute
)

// runProgram implements the tool run_program: it runs gpuprof run -- and returns a brief analysis.
func (s *server) runProgram(ctx context.Context, _ *sdk.CallToolRequest, in programIn) (*sdk.CallToolResult, any, error) {
	limit, err := in.checkInput()
	if err != nil {
		return failureResult(err), nil, nil
	}
	done, err := s.lockMeasure(ctx)
	if err != nil {
		return failureResult(err), nil, nil
	}
	defer done()
	if in.Output == "" {
		in.Output = "gpuprof-" + time.Now().Format("20060102-150405.000")
	}
	e, err := s.run(ctx, in.Folder, limit, in.commandArgs()...)
	if err != nil {
		return failureResult(err), nil, nil
	}
	folder := in.Output
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(in.Folder, folder)
	}
	if !programEnded.MatchString(e.words) { // the program never started; the folder may have an older recording
		return failedAs(e), nil, nil
	}
	p := programOf(e, folder)
	analysis := filepath.Join(folder, "analysis.json")
	if _, err := os.Stat(analysis); err != nil {
		r := textResult(encodeJSON(map[string]any{"program": p, "error": cli.Complaint{Message: "recording the program: nothing of it was recorded", Fix: "the notes say why; a program needs more than 15 steps", ExitCode: cli.ExitFailed}}))
		r.IsError = true
		return r, nil, nil
	}
	p.Whole = documents + (&url.URL{Path: analysis}).EscapedPath()
	rest := tokensOf(in.MaxTokens) - document.Tokens(len(encodeJSON(map[string]any{"program": p, "analysis": ""})))
	found, err := s.run(ctx, "", 0, append(briefArgs("report", rest), fileArg(analysis))...)
	switch {
	case err != nil:
		return failureResult(err), nil, nil
	case found.code != cli.ExitOK:
		return failedAs(found), nil, nil
	}
	return textResult(encodeJSON(map[string]any{"program": p, "analysis": json.RawMessage(found.out)})), nil, nil
}

// checkInput refuses inputs that gpuprof run would refuse. It returns the time limit.
func (in *programIn) checkInput() (limit time.Duration, err error) {
	if err := checkCommand(in.Command); err != nil {
		return 0, err
	}
	if in.MaxTokens != 0 && in.MaxTokens < leastForProgram {
		return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading max_tokens %d: the result of run_program takes at least %d", in.MaxTokens, leastForProgram).WithFix("give %d or more", leastForProgram)
	}
	if in.TimeLimit == "" {
		return usualLimit, nil
	}
	limit, err = time.ParseDuration(in.TimeLimit)
	if err != nil || limit <= 0 {
		return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading time_limit %s: it is no time above 0", in.TimeLimit).WithFix("give for example 90s or 5m")
	}
	return limit, nil
}

// commandArgs returns the command line of gpuprof run --.
func (in *programIn) commandArgs() []string {
	args := []string{"run", "--output=" + in.Output}
	if in.Steps != 0 {
		args = append(args, fmt.Sprintf("--steps=%d", in.Steps))
	}
	if in.Skip != nil {
		args = append(args, fmt.Sprintf("--skip=%d", *in.Skip))
	}
	args = addSwitch(addSwitch(addSwitch(addSwitch(args, "memory", in.Memory), "shapes", in.Shapes), "stacks", in.Stacks), "stop-after", in.StopAfter)
	return append(append(args, "--"), in.Command...)
}

// programEnded matches gpuprof's note about the end of the program. The text before the note was printed while the
// program ran.
var programEnded = lazyregexp.New(`(?m)^gpuprof: \S.* (ended with exit code|was ended) `)

// programOf returns how a program ended, from its output and the notes of gpuprof run.
func programOf(e ended, folder string) program {
	p := program{Recording: folder, ExitCode: e.code}
	own := e.words
	if at := programEnded.FindStringIndex(e.words); at != nil {
		own = e.words[:at[0]]
	}
	var said strings.Builder
	for line := range strings.Lines(own) {
		if !strings.HasPrefix(line, "gpuprof: ") {
			said.WriteString(line)
		}
	}
	for line := range strings.Lines(e.words[len(own):]) {
		if note, ok := strings.CutPrefix(strings.TrimSpace(line), "gpuprof: "); ok && len(p.Notes) < notesKept && !strings.HasPrefix(note, "everything is in ") {
			p.Notes = append(p.Notes, firstBytes(document.CleanText(note), noteKept))
		}
	}
	kept, words := saidKept, strings.TrimSpace(e.out+"\n"+said.String())
	if e.code != 0 {
		kept = failedKept
	}
	p.Said = lastBytes(cli.SentenceOf(words), kept)
	return p
}

// encodeJSON returns v as JSON on one line, without escapes for <, > and &.
func encodeJSON(v any) string {
	text, err := document.EncodeLine(v)
	if err != nil { // encoding strings and numbers cannot fail
		return "{}"
	}
	return string(text)
}
