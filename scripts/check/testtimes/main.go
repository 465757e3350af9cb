// Command testtimes prints a Markdown table of the seconds in which each package compiles, links and runs its
// tests: `testtimes RUN.json GRAPH.json` reads the output of `go test -json` and `go test -debug-actiongraph`. The
// compile time is the package's own, 0 if it was cached; dependencies have rows of their own, and all other modules
// share one row. `make test-times` runs it. It imports only the standard library.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	module  = "github.com/gpuprof/gpuprof"
	outside = "(other modules)"
	listed  = 10.0 // least seconds of a package with its own row
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "testtimes: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: testtimes RUN.json GRAPH.json")
	}
	rows := make(map[string]*row)
	for i, read := range []func(io.Reader, map[string]*row) error{readRun, readGraph} {
		if err := readFile(args[i], rows, read); err != nil {
			return err
		}
	}
	return write(out, slices.Collect(maps.Values(rows)))
}

// readFile adds to rows the times that the function read finds in a file.
func readFile(name string, rows map[string]*row, read func(io.Reader, map[string]*row) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := read(file, rows); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// row is one package; times are wall-clock seconds.
type row struct {
	pkg                string
	compile, link, run float64
	longest            string // the slowest top-level test
	longestS           float64
}

func (r row) totalS() float64 { return r.compile + r.link + r.run }

func rowOf(rows map[string]*row, pkg string) *row {
	pkg, _, _ = strings.Cut(pkg, " [") // removes the suffix of a package's test variant
	pkg = strings.TrimSuffix(strings.TrimSuffix(pkg, ".test"), "_test")
	switch rest, ours := strings.CutPrefix(pkg, module); {
	case !ours:
		pkg = outside
	case rest == "":
		pkg = "."
	default:
		pkg = rest[1:]
	}
	if rows[pkg] == nil {
		rows[pkg] = &row{pkg: pkg}
	}
	return rows[pkg]
}

func readRun(in io.Reader, rows map[string]*row) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue // output of the compiler
		}
		var e struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if e.Action != "pass" && e.Action != "fail" || strings.Contains(e.Test, "/") {
			continue
		}
		r := rowOf(rows, e.Package)
		if e.Test == "" {
			r.run = e.Elapsed
		} else if e.Elapsed > r.longestS {
			r.longest, r.longestS = e.Test, e.Elapsed
		}
	}
	return lines.Err()
}

func readGraph(in io.Reader, rows map[string]*row) error {
	var actions []struct {
		Mode, Package       string
		TimeStart, TimeDone time.Time
		Cmd                 []string
	}
	if err := json.NewDecoder(in).Decode(&actions); err != nil {
		return err
	}
	for _, a := range actions {
		took := a.TimeDone.Sub(a.TimeStart).Seconds()
		switch {
		case len(a.Cmd) == 0: // from the cache
		case a.Mode == "build":
			rowOf(rows, a.Package).compile += took
		case a.Mode == "link":
			rowOf(rows, a.Package).link += took
		}
	}
	return nil
}

// write prints slow packages as rows, all others as one row, and the sums.
func write(out io.Writer, rows []*row) error {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Or(cmp.Compare(b.run, a.run), cmp.Compare(a.pkg, b.pkg)) })
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "| package | compile | link | run | longest test |\n|---|---:|---:|---:|---|")
	line := func(r row, longest string) {
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %.1f | %s |\n", r.pkg, r.compile, r.link, r.run, longest)
	}
	rest, sum, few := row{}, row{pkg: "all"}, 0
	for _, r := range rows {
		for _, s := range []*row{&sum, &rest} {
			if s == &rest && r.totalS() >= listed {
				continue
			}
			s.compile, s.link, s.run = s.compile+r.compile, s.link+r.link, s.run+r.run
		}
		if r.totalS() < listed {
			few++
			continue
		}
		longest := ""
		if r.longest != "" {
			longest = fmt.Sprintf("%s %.1f", r.longest, r.longestS)
		}
		line(*r, longest)
	}
	rest.pkg = fmt.Sprintf("%d others", few)
	line(rest, "")
	line(sum, "")
	return w.Flush()
}
