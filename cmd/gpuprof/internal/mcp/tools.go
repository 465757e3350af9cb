package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof"
)

// where has the inputs that the tools with files or commands share.
type where struct {
	Folder    string `json:"folder,omitempty" jsonschema:"Folder that relative paths start from and that commands run in. Default: the folder of the server."`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"Most tokens of the result, by an estimate of 3 bytes a token. Default 2000, at least 600."`
}

type analyzeIn struct {
	Paths   []string `json:"paths" jsonschema:"Traces (PyTorch profiler JSON, Nsight Systems SQLite, rocprofv3 database, JAX xplane, .gpt of gpuprof), or folders of them, such as what run_program left. Several are the ranks of one job."`
	Compare bool     `json:"compare,omitempty" jsonschema:"Compare two recordings: paths are before and after a change."`
	Steps   string   `json:"steps,omitempty" jsonschema:"Analyze steps A..B of one trace only."`
	Window  string   `json:"window,omitempty" jsonschema:"Analyze the time T..U of one trace only, such as 10s..12s."`
	where
}

type memoryIn struct {
	Paths       []string `json:"paths" jsonschema:"Memory snapshots of PyTorch (.pickle), or a folder that run_program left with memory. Several are the ranks of one job."`
	Compare     bool     `json:"compare,omitempty" jsonschema:"Compare two snapshots: paths are before and after a change."`
	At          string   `json:"at,omitempty" jsonschema:"Show this moment in place of the peak: peak, end, oom, step:N, event:N, or a time such as 1.5s."`
	WhatIf      []string `json:"what_if,omitempty" jsonschema:"Replay the snapshot with these settings of PYTORCH_CUDA_ALLOC_CONF too, such as max_split_size_mb:64."`
	MemoryLimit string   `json:"memory_limit,omitempty" jsonschema:"Most memory that the process could reserve, such as 20GiB."`
	where
}

type compareIn struct {
	Old       string   `json:"old" jsonschema:"Result before: a run, a trace, an analysis, or a result of Go benchmarks, NVBench, Google Benchmark, pytest-benchmark or hyperfine."`
	New       string   `json:"new" jsonschema:"Result after, of the same kind."`
	Threshold string   `json:"threshold,omitempty" jsonschema:"Slowdown that must be found, such as 5%. Default 5%."`
	Metrics   []string `json:"metrics,omitempty" jsonschema:"Judge only these metrics; * stands for any text."`
	where
}

type gateIn struct {
	Against   string   `json:"against" jsonschema:"Git revision before the change (HEAD for changes that are not committed), or another binary written as a path (./old)."`
	Command   []string `json:"command" jsonschema:"Program and arguments as a list, such as [\"python\", \"train.py\"]. No shell reads it. A program that prints no benchmark result is recorded, and its steps are compared."`
	Budget    string   `json:"budget,omitempty" jsonschema:"Time for the whole measurement, such as 5m. Default 10m."`
	Threshold string   `json:"threshold,omitempty" jsonschema:"Slowdown that must be found, such as 5%. Default 5%."`
	Metrics   []string `json:"metrics,omitempty" jsonschema:"Judge only these metrics, such as step."`
	Max       []string `json:"max,omitempty" jsonschema:"Fail when an exact counter is above a limit, NAME=N, such as sync_points=3."`
	Result    string   `json:"result,omitempty" jsonschema:"File that the command writes its benchmark result to. Without it standard output is read."`
	Links     []string `json:"links,omitempty" jsonschema:"Files of this checkout that git does not have (data, environments) and that the checkout of the old revision gets by a link."`
	Output    string   `json:"output,omitempty" jsonschema:"Also write the whole comparison to this file (.json)."`
	where
}

type explainIn struct {
	Name      string `json:"name" jsonschema:"Id of a rule or a warning, or a column or term, as a result has it: item, not-settled, exposed time."`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"Most tokens of the result. Default 2000, at least 600."`
}

type doctorIn struct {
	Check     bool `json:"check,omitempty" jsonschema:"Report the faults of the GPUs by their drivers and the kernel's log instead."`
	MaxTokens int  `json:"max_tokens,omitempty" jsonschema:"Most tokens of the result. Default 2000, at least 600."`
}

// readOnlyHints returns the annotations of a tool that changes nothing.
func readOnlyHints(title string) *sdk.ToolAnnotations {
	no := false
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
}

// commandHints returns the annotations of a tool that starts the agent's command, which may do anything.
func commandHints(title string) *sdk.ToolAnnotations {
	yes := true
	return &sdk.ToolAnnotations{Title: title, DestructiveHint: &yes, OpenWorldHint: &yes}
}

func (s *server) addTools(to *sdk.Server) {
	sdk.AddTool(to, &sdk.Tool{Name: "run_program", Annotations: commandHints("Record and analyze a program"),
		Description: "Run a command, record a few steady steps of it and return findings: what costs time, at which file and line, the largest possible saving, the change, and the command that verifies it. Use it first. Leaves a folder that analyze, compare and gpuprof://document read. Measures one command at a time."}, s.runProgram)
	sdk.AddTool(to, &sdk.Tool{Name: "gate", Annotations: commandHints("Measure a change"),
		Description: "Measure the working tree against an earlier git revision or binary, in turns of one process each, and return the verdict: improved, pass, regressed, inconclusive or not comparable, with ratio and 95 % interval. Call it after every change; only improved confirms a saving. Takes minutes; an inconclusive result lists in next what would decide it."}, s.gate)
	sdk.AddTool(to, &sdk.Tool{Name: "analyze", Annotations: readOnlyHints("Analyze recordings"),
		Description: "Read recordings of a program and return findings, or, with compare, which findings a change removed and how much of each claimed saving was delivered. It measures nothing."}, s.analyze)
	sdk.AddTool(to, &sdk.Tool{Name: "compare", Annotations: readOnlyHints("Compare two results"),
		Description: "Compare two stored results or recordings: ratio, 95 % interval and verdict of each metric. A verdict needs 6 processes per side; gate measures them."}, s.compare)
	sdk.AddTool(to, &sdk.Tool{Name: "memory", Annotations: readOnlyHints("Analyze memory snapshots"),
		Description: "Read memory snapshots of PyTorch and return which lines hold the memory at the peak or at an out-of-memory error, and which change lowers it. run_program records one with memory."}, s.memory)
	sdk.AddTool(to, &sdk.Tool{Name: "explain", Annotations: readOnlyHints("Explain a name"),
		Description: "Explain a rule, warning, column or term of a result: cause, change, and the bound of its figure."}, s.explain)
	sdk.AddTool(to, &sdk.Tool{Name: "doctor", Annotations: readOnlyHints("Examine this machine"),
		Description: "Report what this machine can and cannot measure, why, and how to fix it. Use it when a recording lacks the GPU."}, s.doctor)
}

func (s *server) analyze(ctx context.Context, _ *sdk.CallToolRequest, in analyzeIn) (*sdk.CallToolResult, any, error) {
	if err := checkPaths(in.Paths); err != nil {
		return failureResult(err), nil, nil
	}
	args := addSwitch(briefArgs("analyze", in.MaxTokens), "compare", in.Compare)
	args = addFlag(addFlag(args, "steps", in.Steps), "window", in.Window)
	return s.runVerb(ctx, in.Folder, append(args, fileArgs(in.Paths)...)...)
}

func (s *server) memory(ctx context.Context, _ *sdk.CallToolRequest, in memoryIn) (*sdk.CallToolResult, any, error) {
	if err := checkPaths(in.Paths); err != nil {
		return failureResult(err), nil, nil
	}
	args := addSwitch(briefArgs("analyze", in.MaxTokens), "compare", in.Compare)
	args = addFlag(addFlags(addFlag(args, "at", in.At), "what-if", in.WhatIf), "memory-limit", in.MemoryLimit)
	return s.runVerb(ctx, in.Folder, append(args, fileArgs(in.Paths)...)...)
}

func (s *server) compare(ctx context.Context, _ *sdk.CallToolRequest, in compareIn) (*sdk.CallToolResult, any, error) {
	args := addFlags(addFlag(briefArgs("compare", in.MaxTokens), "threshold", in.Threshold), "metric", in.Metrics)
	return s.runVerb(ctx, in.Folder, append(args, fileArg(in.Old), fileArg(in.New))...)
}

func (s *server) gate(ctx context.Context, _ *sdk.CallToolRequest, in gateIn) (*sdk.CallToolResult, any, error) {
	if err := checkCommand(in.Command); err != nil {
		return failureResult(err), nil, nil
	}
	if in.Against == "" {
		return failureResult(gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: against is empty").WithFix("give the git revision before the change, such as HEAD, or ./BINARY")), nil, nil
	}
	done, err := s.lockMeasure(ctx)
	if err != nil {
		return failureResult(err), nil, nil
	}
	defer done()
	args := addFlag(briefArgs("gate", in.MaxTokens), "against", in.Against)
	args = addFlag(addFlag(addFlag(args, "budget", in.Budget), "threshold", in.Threshold), "result", in.Result)
	args = addFlags(addFlags(addFlags(args, "metric", in.Metrics), "max", in.Max), "link", in.Links)
	args = append(addFlag(args, "output", in.Output), "--")
	return s.runVerb(ctx, in.Folder, append(args, in.Command...)...)
}

func (s *server) explain(ctx context.Context, _ *sdk.CallToolRequest, in explainIn) (*sdk.CallToolResult, any, error) {
	words := strings.Fields(in.Name)
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return failureResult(gpuprof.Errorf(gpuprof.ErrUsage, "explaining %q: it is no name", in.Name).WithFix("give the id of a finding or a warning, a column or a term")), nil, nil
	}
	return s.runVerb(ctx, "", append(briefArgs("explain", in.MaxTokens), words...)...)
}

func (s *server) doctor(ctx context.Context, _ *sdk.CallToolRequest, in doctorIn) (*sdk.CallToolResult, any, error) {
	return s.runVerb(ctx, "", addSwitch(briefArgs("doctor", in.MaxTokens), "check", in.Check)...)
}

func checkPaths(paths []string) error {
	if len(paths) == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the recordings: paths is empty").WithFix("give the files or the folder that run_program left")
	}
	return nil
}
