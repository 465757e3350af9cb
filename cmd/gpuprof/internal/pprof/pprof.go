// Package pprof implements gpuprof pprof, which opens a run, a recording or a profile in the built-in pprof. It imports
// the packages cli and input, but no package of another subcommand.
package pprof

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Cmd has the argument of gpuprof pprof.
type Cmd struct {
	File string `arg:"" name:"run" complete:"file" help:"Run file, recording, folder of gpuprof run -- CMD, or profile (.pb.gz)."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Without flags it serves pprof's pages on this machine and opens a browser. Flags after the run go to pprof (-help lists them); -base and -diff_base take run files too. Values are of one step: device_time and host_time are the medians of the tables, step_time divides the step by the stages' shares.\n\n" + cli.Examples(
		"gpuprof pprof run.json",
		"gpuprof pprof run.json -top",
		"gpuprof pprof run.json -sample_index=step_time -top -cum",
		"gpuprof pprof new.json -top -diff_base old.json",
		"gpuprof pprof run.json -http=localhost:0 -no_browser",
	)
}

// Run implements gpuprof pprof.
func (c *Cmd) Run(a *cli.App) error {
	// Check the file first: pprof would only report that there is no profile.
	p, err := openProfile(a, c.File)
	if err != nil {
		return err
	}
	args := a.Rest
	if len(args) == 0 {
		args = []string{"-http=localhost:"}
	}
	fetch := &runFetcher{app: a, ready: map[string]*profile.Profile{c.File: p}}
	ui := &pprofUI{app: a, in: bufio.NewReader(os.Stdin), fetch: fetch}
	flags := newPprofFlags(args, c.File)
	flags.SetOutput(io.Discard)
	err = driver.PProf(&driver.Options{
		Flagset: flags, Fetch: fetch, Sym: noSymbols{}, UI: ui,
		HTTPServer: func(s *driver.HTTPServerArgs) error { return servePages(a, s) },
	})
	switch {
	case errors.Is(flags.err, flag.ErrHelp):
		return nil
	case flags.err != nil:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading pprof's flags: %w", flags.err).WithFix("gpuprof pprof %s -help lists them", c.File)
	case fetch.err != nil:
		return fetch.err
	case err != nil:
		return gpuprof.Errorf(nil, "opening %s in pprof: %w", c.File, err).WithFix("see the flags with go tool pprof -help")
	}
	return nil
}

// SplitArgs divides the command line of gpuprof pprof into gpuprof's own words and pprof's flags. Flags after the run
// file belong to pprof. So do flags before it, if it is the last word (as in go tool pprof). ok is false without flags
// of pprof, and if the command line has a "--".
func SplitArgs(args []string) (own, rest []string, ok bool) {
	at := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if at < 0 || args[at] != "pprof" || slices.Contains(args, "--") {
		return nil, nil, false
	}
	own = slices.Clone(args[:at+1])
	for _, a := range args[at+1:] {
		if a == "--help" || a == "-h" || a == "--quiet" || a == "--no-color" {
			own = append(own, a)
			continue
		}
		rest = append(rest, a)
	}
	isFlag := func(a string) bool { return strings.HasPrefix(a, "-") && a != "-" }
	if !slices.ContainsFunc(rest, isFlag) {
		return nil, nil, false
	}
	run := 0
	if isFlag(rest[0]) {
		run = len(rest) - 1
	}
	if !isFlag(rest[run]) {
		own, rest = append(own, rest[run]), slices.Delete(rest, run, run+1)
	}
	return own, rest, true
}

func readProfile(a *cli.App, path string) (*profile.Profile, error) {
	runs, err := runfile.Read(a.Ctx, path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = a.Documents.Run.Write(&b, "pprof", runs, cli.Screen{})
	return parseProfile(path, &b, err)
}

// parseProfile parses the profile in b, unless err, the error of writing the profile to b, is not nil.
func parseProfile(path string, b *bytes.Buffer, err error) (*profile.Profile, error) {
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(b)
	if err != nil {
		return nil, gpuprof.Errorf(nil, "converting %s to a profile: %w", path, err).WithFix("this is a fault in gpuprof, please report it")
	}
	return cleanProfile(p), nil
}

// isRecording reports whether a path is a folder, or a regular file that begins like a recording. It does not read
// pipes.
func isRecording(a *cli.App, path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || !info.Mode().IsRegular() {
		return err == nil && info.IsDir()
	}
	in, err := input.OpenFile(a.Ctx, path)
	if err != nil {
		return false
	}
	defer in.Close()
	return in.IsTrace
}

func recordedProfile(a *cli.App, path string) (*profile.Profile, error) {
	files := []string{path}
	if cli.IsDir(path) {
		found, err := input.SnapshotsIn(path)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			files = found
		}
	}
	var b bytes.Buffer
	found, indexes, err := input.AnalyzeRecordings(a, files)
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		err = a.Documents.Memory.Write(&b, "pprof", found, cli.Screen{})
	default:
		err = a.Documents.Analysis.Write(&b, "pprof", &cli.Study{Indexes: indexes}, cli.Screen{})
	}
	return parseProfile(path, &b, err)
}

// isProfile reports whether a file is a profile, by its name.
func isProfile(path string) bool {
	return strings.HasSuffix(path, ".pb.gz") || strings.HasSuffix(path, ".pprof")
}

// openProfile reads a profile, or converts a run or recording to a profile.
func openProfile(a *cli.App, path string) (*profile.Profile, error) {
	defer input.LimitHeap(outside.DocumentMemory())()
	switch {
	case isProfile(path):
	case isRecording(a, path):
		return recordedProfile(a, path)
	default:
		return readProfile(a, path)
	}
	p, err := outside.ReadProfile(a.Ctx, path)
	if err != nil {
		return nil, outside.Failed("reading profile "+path, err, "give a run or a profile written by gpuprof run -o", "the file is damaged or no profile")
	}
	return cleanProfile(p), nil
}

// cleanProfile removes control characters from all texts of a profile, because pprof prints comments and labels
// unchanged.
func cleanProfile(p *profile.Profile) *profile.Profile {
	for _, texts := range []any{&p.Function, &p.Mapping, &p.SampleType, &p.PeriodType, &p.Comments} {
		document.CleanStrings(texts)
	}
	for _, text := range []*string{&p.DropFrames, &p.KeepFrames, &p.DefaultSampleType, &p.DocURL} {
		*text = document.CleanText(*text)
	}
	for i := range p.Comments {
		p.Comments[i] = runfile.Line(p.Comments[i])
	}
	for _, s := range p.Sample {
		document.CleanStrings(&s.Label)
		document.CleanStrings(&s.NumLabel)
		document.CleanStrings(&s.NumUnit)
		s.Label, s.NumLabel, s.NumUnit = cleanKeys(s.Label), cleanKeys(s.NumLabel), cleanKeys(s.NumUnit)
		for _, values := range s.Label {
			for i := range values {
				values[i] = runfile.Line(values[i])
			}
		}
	}
	return p
}

// cleanKeys changes names of labels that a build server would execute as commands at the start of a line
// (runfile.Line).
func cleanKeys[V any](m map[string]V) map[string]V {
	for k, v := range m {
		if safe := runfile.Line(k); safe != k {
			delete(m, k)
			m[safe] = v
		}
	}
	return m
}

// runFetcher reads the files for pprof, including the base of a difference, because pprof itself would read them
// without a memory limit. pprof fetches profile and base in two goroutines.
type runFetcher struct {
	app   *cli.App                    // kept here, because pprof passes none to Fetch
	mu    sync.Mutex                  // guards ready and err
	ready map[string]*profile.Profile // profiles read already, by source
	err   error
}

func (f *runFetcher) Fetch(src string, _, _ time.Duration) (*profile.Profile, string, error) {
	f.mu.Lock()
	p, ok := f.ready[src]
	delete(f.ready, src)
	f.mu.Unlock()
	if !ok {
		var err error
		if p, err = openProfile(f.app, src); err != nil {
			f.mu.Lock()
			f.err = errors.Join(f.err, err)
			f.mu.Unlock()
			return nil, "", err
		}
	}
	// Return no address: pprof saves a copy of a profile with an address in the home folder.
	return p, "", nil
}

// noSymbols prevents pprof from looking for binaries and symbol servers: all functions already have names.
type noSymbols struct{}

func (noSymbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// pprofFlags is pprof's flag set. It parses args in place of the process's own arguments.
type pprofFlags struct {
	*flag.FlagSet
	args  []string
	extra []string
	err   error
}

// newPprofFlags returns the flag set for pprof's flags and the profile's file. It omits port 0 of -http, because pprof
// chooses a free port only if none is given.
func newPprofFlags(flags []string, file string) *pprofFlags {
	f := &pprofFlags{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError)}
	for _, arg := range flags {
		if strings.HasPrefix(strings.TrimLeft(arg, "-"), "http=") {
			if rest, ok := strings.CutSuffix(arg, ":0"); ok {
				arg = rest + ":"
			}
		}
		f.args = append(f.args, arg)
	}
	f.args = append(f.args, file)
	return f
}

func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}

func (f *pprofFlags) ExtraUsage() string        { return strings.Join(f.extra, "\n") }
func (f *pprofFlags) AddExtraUsage(text string) { f.extra = append(f.extra, text) }

func (f *pprofFlags) Parse(usage func()) []string {
	f.err = f.FlagSet.Parse(f.args)
	if errors.Is(f.err, flag.ErrHelp) {
		usage()
	}
	if f.err != nil {
		return nil
	}
	return f.Args()
}

// pprofUI connects pprof's dialogue to the standard streams.
type pprofUI struct {
	app   *cli.App
	in    *bufio.Reader
	fetch *runFetcher
}

func (u *pprofUI) ReadLine(prompt string) (string, error) {
	fmt.Fprint(u.app.Stderr, prompt)
	line, err := u.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

func (u *pprofUI) Print(args ...any)                        { u.printMessage(fmt.Sprint(args...)) }
func (u *pprofUI) PrintErr(args ...any)                     { u.printMessage(fmt.Sprint(args...)) }
func (u *pprofUI) IsTerminal() bool                         { return false }
func (u *pprofUI) WantBrowser() bool                        { return true }
func (u *pprofUI) SetAutoComplete(func(part string) string) {}

// printMessage prints a message of pprof. It omits messages about missing binaries, and messages after a file could not
// be read, because gpuprof reports its own error.
func (u *pprofUI) printMessage(text string) {
	if strings.Contains(text, "binary filename") || u.fetch.err != nil || u.app.Quiet {
		return
	}
	fmt.Fprintln(u.app.Stderr, strings.TrimRight(text, "\n"))
}

// servePages serves pprof's pages until an interrupt. An interrupt is not an error.
func servePages(a *cli.App, args *driver.HTTPServerArgs) error {
	mux := http.NewServeMux()
	for path, h := range args.Handlers {
		mux.Handle(path, h)
	}
	l, err := net.Listen("tcp", args.Hostport)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(a.Ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
