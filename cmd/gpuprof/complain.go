package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// complain prints the errors of a command that ends with an exit code.
func (a *app) complain(err error, code int, asJSON bool) {
	for _, e := range flatten(err) {
		switch {
		case e.Error() == "": // a verdict that has been reported
		case asJSON:
			a.complainJSON(e, code)
		default:
			fmt.Fprintf(a.stderr, "gpuprof: %s\n", sentence(e))
		}
	}
}

func (a *app) complainJSON(err error, code int) {
	reason, fix := gpuprof.FixOf(err)
	c := complaint{Message: sentenceOf(reason), Fix: sentenceOf(fix), ExitCode: code}
	if under := innermost(err).Error(); under != reason && strings.HasSuffix(reason, under) {
		c.Cause = sentenceOf(under)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(map[string]complaint{"error": c}) == nil { // texts and a number always are
		_, _ = a.stderr.Write(b.Bytes()) // there is nowhere else to say it
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
