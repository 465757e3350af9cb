//go:build !race

// Command lines are read in one goroutine, and the race detector makes it ten times as long.

package main

import (
	"io"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
)

// parsed is a command line as kong alone reads it, or as gpuprof does.
func parsedCommand(t testing.TB, args []string, alone bool) (grammar, string) {
	t.Helper()
	var c grammar
	a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}
	parser, _, err := newParser(a, &c)
	if err != nil {
		t.Fatal(err)
	}
	more := commandline.Repeats{}
	if !alone {
		args, more = commandline.TakeRepeats(parser.Model.Node, args)
	}
	if _, err = parser.Parse(args); err != nil {
		return grammar{}, err.Error()
	}
	more.Add()
	return c, ""
}

// TestRepeats: a command line is read as kong alone reads it, whatever is repeated in it.
func TestRepeats(t *testing.T) {
	words := []string{"--set", "batch=1", "--set=impl=a,b", "--set=", "-o", "a.json", "-oa.json", "--output=b.json", "--quiet", "-v", "--device", "host", "--samples=3", "--samples", "run", "e3nn", "gate", "--metric", "--metric=x", "--knob", "--knob=a,b", "--knob=c\\,d", "--devices=0,1", "--devices", "2", "--skip=-x", "--no-energy", "analyze", "t.json", "--what-if=a:1", "-x", ""}
	rapid.Check(t, func(r *rapid.T) {
		verb := rapid.SampledFrom([]string{"run", "gate", "analyze", "tune", "bisect", "history", "fleet"}).Draw(r, "verb")
		args := append([]string{verb}, rapid.SliceOfN(rapid.SampledFrom(words), 0, 12).Draw(r, "words")...)
		plain, said := parsedCommand(t, args, true)
		got, says := parsedCommand(t, args, false)
		if (said == "") != (says == "") || !reflect.DeepEqual(got, plain) {
			r.Fatalf("%q is read otherwise: %q, by kong alone %q", args, says, said)
		}
	})
}

// A repetition between two arguments ends the list of arguments, as kong alone has it, and values keep their order.
func TestRepeatsBetweenArguments(t *testing.T) {
	for _, args := range [][]string{
		{"gate", "--set=", "host", "--set", "batch=1", "host"},
		{"gate", "--set", "a=1", "--set", "b=2", "old", "new", "--set", "c=3", "--set", "d=4"},
		{"run", "-oa.json", "--output=b.json", "--output=c.json", "-od.json"},
		{"analyze", "--what-if=a:1", "--what-if=b:1", "t.json", "--what-if=c:1"},
	} {
		plain, said := parsedCommand(t, args, true)
		got, says := parsedCommand(t, args, false)
		if (said == "") != (says == "") || !reflect.DeepEqual(got, plain) {
			t.Errorf("%q is read otherwise: %q, by kong alone %q", args, says, said)
		}
	}
}
