package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
)

// complain prints the errors of a command that ends with an exit code.
func complain(a *cli.App, err error, code int, asJSON bool) {
	for _, e := range cli.Flatten(err) {
		switch {
		case e.Error() == "": // a verdict that has been reported
		case asJSON:
			complainJSON(a, e, code)
		default:
			fmt.Fprintf(a.Stderr, "gpuprof: %s\n", cli.Sentence(e))
		}
	}
}

func complainJSON(a *cli.App, err error, code int) {
	reason, fix := gpuprof.FixOf(err)
	c := cli.Complaint{Message: cli.SentenceOf(reason), Fix: cli.SentenceOf(fix), ExitCode: code}
	if under := innermost(err).Error(); under != reason && strings.HasSuffix(reason, under) {
		c.Cause = cli.SentenceOf(under)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(map[string]cli.Complaint{"error": c}) == nil { // texts and a number always are
		_, _ = a.Stderr.Write(b.Bytes()) // there is nowhere else to say it
	}
}

// asksJSON reports whether a command line asks for a format of JSON. It is asked before the
// line is parsed, whose own errors are printed the same way.
func asksJSON(args []string) bool {
	return slices.Contains([]string{"json", briefFormat}, formatAsked(args))
}

// briefFormat is the value of --format for documents that are trimmed.
const briefFormat = "brief-json"

// tokensOf checks --max-tokens, 0 where it was not given.
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

// formatAsked is the value of --format on a command line, "" for none.
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

// innermost is the error at the end of the chain of causes.
func innermost(err error) error {
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
