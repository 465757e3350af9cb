package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
)

func printErrors(a *cli.App, err error, code int, asJSON bool) {
	for _, e := range cli.Flatten(err) {
		switch {
		case e.Error() == "": // an outcome that was reported already
		case asJSON:
			printErrorJSON(a, e, code)
		default:
			fmt.Fprintf(a.Stderr, "gpuprof: %s\n", cli.Sentence(e))
		}
	}
}

func printErrorJSON(a *cli.App, err error, code int) {
	reason, fix := gpuprof.FixOf(err)
	c := cli.Complaint{Message: cli.SentenceOf(reason), Fix: cli.SentenceOf(fix), ExitCode: code}
	if under := findCause(err).Error(); under != reason && strings.HasSuffix(reason, under) {
		c.Cause = cli.SentenceOf(under)
	}
	if text, err := document.EncodeLine(map[string]cli.Complaint{"error": c}); err == nil { // encoding strings and numbers cannot fail
		_, _ = a.Stderr.Write(append(text, '\n')) // an error has no other place to go
	}
}

func asksJSON(args []string) bool {
	return slices.Contains([]string{"json", briefFormat}, formatAsked(args))
}

// briefFormat is the value of --format for documents that are shortened for coding agents.
const briefFormat = "brief-json"

// tokensOf checks the value of --max-tokens and returns it; 0 means that the flag is not given.
func tokensOf(tokens int, format string) (int, error) {
	switch {
	case tokens == 0:
		return 0, nil
	case format != briefFormat:
		return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading --max-tokens %d: it limits --format %s only", tokens, briefFormat).WithFix("add --format %s, or leave it out", briefFormat)
	case tokens < document.LeastTokens:
		return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading --max-tokens %d: a document takes at least %d", tokens, document.LeastTokens).WithFix("give %d or more", document.LeastTokens)
	}
	return tokens, nil
}

// formatAsked returns the value of --format, or "". It reads the unparsed command line, because errors of parsing are
// printed in this format too.
func formatAsked(args []string) string {
	if d := slices.Index(args, "--"); d >= 0 {
		args = args[:d]
	}
	format := ""
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--format="); ok {
			format = value
		} else if arg == "--format" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format
}

func findCause(err error) error {
	for {
		under := errors.Unwrap(err)
		if e, ok := errors.AsType[*gpuprof.Error](err); ok {
			under = e.Err
		}
		if under == nil {
			return err
		}
		err = under
	}
}
