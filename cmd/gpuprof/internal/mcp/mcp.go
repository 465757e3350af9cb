// Package mcp implements gpuprof mcp: it serves coding agents over the Model Context Protocol, on standard input and
// output, with brief documents. Each tool starts this program again with the command line of a subcommand. A separate
// process has its own folder, memory limit, signals and exit code, and a recording that exhausts memory ends one call
// and not the server. The package imports no package of a subcommand.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/term"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// Cmd is gpuprof mcp, which has no flags.
type Cmd struct{}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Speaks the Model Context Protocol on standard input and output until its input ends. An agent host starts it; docs/agents.md shows how. Its tools are analyze, compare, gate, explain, doctor, memory and run_program. run_program and gate start the commands that the agent gives, with your rights and without a shell.\n\n" +
		cli.Examples("gpuprof mcp")
}

// Texts are the documents that the server publishes as resources.
type Texts struct {
	Schemas func() map[string]func() ([]byte, error) // functions that return a JSON schema, by the name of the output
}

// server is a session with one agent host.
type server struct {
	app *cli.App
	exe string          // path of this program
	ctx context.Context // cancelled at the end of the input, with the processes of running calls
	// measure is a semaphore for one value: only the call that has put the value in may measure, because two
	// measurements would disturb each other.
	measure chan struct{}
}

// Run implements gpuprof mcp.
func (c *Cmd) Run(a *cli.App, texts *Texts) error {
	exe, err := cli.OwnProgram()
	if err != nil {
		return err
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		a.Note("an agent host speaks with gpuprof mcp on standard input; Ctrl-D ends it; docs/agents.md has the settings of hosts")
	}
	out := a.Stdout
	if f := cli.FileBehind(out); f != nil { // without runfile.Lines, which would change the protocol
		out = f
	}
	ctx, end := context.WithCancel(a.Ctx)
	defer end()
	s := &server{app: a, exe: exe, ctx: ctx, measure: make(chan struct{}, 1)}
	served, err := s.newServer(texts)
	if err != nil {
		return err
	}
	return s.serveCalls(served, os.Stdin, out, end)
}

// serveCalls answers calls until the input ends, and returns after the last answer.
func (s *server) serveCalls(served *sdk.Server, in io.ReadCloser, out io.Writer, end context.CancelFunc) error {
	over := make(chan error, 1)
	go func() {
		over <- served.Run(s.app.Ctx, &transport{&sdk.IOTransport{Reader: in, Writer: unclosed{out}}, end})
	}()
	var err error
	select {
	case err = <-over:
	case <-s.ctx.Done():
		select {
		case err = <-over:
		case <-time.After(drainFor): // the host stopped reading, so that the last answers cannot be written
		}
	}
	switch {
	case s.app.Ctx.Err() != nil:
		return cli.ErrInterrupted
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, io.EOF):
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "serving an agent host: %w", err).WithFix("send one message of JSON-RPC a line, as the Model Context Protocol has it")
}

type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// newServer returns the server with all tools and resources.
func (s *server) newServer(texts *Texts) (*sdk.Server, error) {
	served := sdk.NewServer(&sdk.Implementation{Name: "gpuprof", Title: "gpuprof", Version: s.app.Tool.Version},
		&sdk.ServerOptions{Instructions: instructions, Capabilities: &sdk.ServerCapabilities{}})
	s.addTools(served)
	if err := s.addResources(served, texts); err != nil {
		return nil, fmt.Errorf("publishing the texts: %w", err)
	}
	return served, nil
}

const instructions = `gpuprof finds out why a GPU or PyTorch program is slow and whether a change made it faster.
1. run_program records a few steps of a command and returns findings: id, place, largest possible saving, change, verify.
2. Change the named place as the finding proposes; explain has the cause and the limits of a rule.
3. gate measures the working tree against the git revision before the change, in turns, and returns a verdict. Only "improved" confirms a saving: a claim is an upper bound.
Results are trimmed to max_tokens; left_out counts the rest. The resource gpuprof://document/PATH is a whole document.`
