package main

import (
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"

	"github.com/alecthomas/kong"
	"pgregory.net/rapid"
)

// parsed is a command line as kong alone reads it, or as gpuprof does.
func parsedCommand(t testing.TB, args []string, alone bool) (cli, string) {
	t.Helper()
	var c cli
	a := &app{ctx: t.Context(), stdout: io.Discard, stderr: io.Discard}
	parser, _, err := a.parser(&c)
	if err != nil {
		t.Fatal(err)
	}
	more := repeats{}
	if !alone {
		args, more = takeRepeats(parser.Model.Node, args)
	}
	if _, err = parser.Parse(args); err != nil {
		return cli{}, err.Error()
	}
	more.add()
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

// TestRepeatsAreLinear: twice as many repetitions of any flag take no more than twice the memory.
func TestRepeatsAreLinear(t *testing.T) {
	var c cli
	parser, _, err := (&app{ctx: t.Context(), stdout: io.Discard, stderr: io.Discard}).parser(&c)
	if err != nil {
		t.Fatal(err)
	}
	took := func(args []string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = parsedCommand(t, args, false) // a value may be refused once it is read
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	flags := 0
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		n, is := node.(*kong.Node)
		if !is || n.Hidden {
			return next(nil)
		}
		for _, f := range n.Flags {
			if f.Target.Kind() != reflect.Slice {
				continue
			}
			flags++
			line := func(times int) []string {
				var args []string
				for at := n; at.Parent != nil; at = at.Parent {
					args = append([]string{at.Name}, args...)
				}
				for i := range times {
					args = append(args, fmt.Sprintf("--%s=a=%d", f.Name, i))
				}
				return args
			}
			const times = 1000
			took(line(1))
			none, once, twice := took(line(1)), took(line(times)), took(line(2*times))
			if grown := float64(twice-none) / float64(once-none); grown > 2.5 { // slices grow by a quarter
				t.Errorf("%s --%s: %d repetitions take %d bytes and twice as many %d", n.FullPath(), f.Name, times, once-none, twice-none)
			}
		}
		return next(nil)
	})
	if err != nil || flags < 20 {
		t.Errorf("%d flags, %v", flags, err)
	}
}
