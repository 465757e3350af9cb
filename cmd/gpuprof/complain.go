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

// asksJSON reports whether a command line asks for --format json. It is asked before the
// line is parsed, whose own errors are printed the same way.
func asksJSON(args []string) bool {
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
	return format == "json"
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
