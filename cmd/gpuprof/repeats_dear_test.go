//go:build !race

// Under the race detector one goroutine that reads long command lines takes ten times as long.

package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// TestRepeatsAreLinear: twice as many repetitions of any flag take no more than twice the memory.
func TestRepeatsAreLinear(t *testing.T) {
	var c grammar
	parser, _, err := newParser(&cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard}, &c)
	if err != nil {
		t.Fatal(err)
	}
	took := func(args []string) uint64 {
		least := uint64(math.MaxUint64) // what other goroutines allocate meanwhile is in some of the tries
		for range 2 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = parsedCommand(t, args, false) // a value may be refused once it is read
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		return least
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
			const times = 400
			took(line(1))
			none, once, twice := took(line(1)), took(line(times)), took(line(2*times))
			if grown := (float64(twice) - float64(none)) / (float64(once) - float64(none)); grown > 3 { // slices grow in steps; a copy of the rest of the line for each flag makes 4
				t.Errorf("%s --%s: %d repetitions take %d bytes and twice as many %d", n.FullPath(), f.Name, times, once-none, twice-none)
			}
		}
		return next(nil)
	})
	if err != nil || flags < 20 {
		t.Errorf("%d flags, %v", flags, err)
	}
}
