package table_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got); run the test with -update if it is meant:\n%s", name, d)
	}
}

func TestGolden(t *testing.T) {
	runs := map[string]*gpuprof.Run{"complete": fixture.One(), "three-processes": fixture.Three(), "partial": fixture.Partial(), "invalid": fixture.Invalid(), "apart": fixture.Apart()}
	for name, r := range runs {
		for _, width := range []int{80, 120} {
			var b bytes.Buffer
			if err := write(&b, table.Options{Width: width}, r); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("%s-%d", name, width), b.String())
		}
	}
	var b bytes.Buffer
	if err := write(&b, table.Options{}, append(fixture.Sweep(), fixture.Invalid())...); err != nil {
		t.Fatal(err)
	}
	golden(t, "sweep-80", b.String())
	b.Reset()
	if err := write(&b, table.Options{Quiet: true}, fixture.Three()); err != nil {
		t.Fatal(err)
	}
	golden(t, "quiet-80", b.String())
}

// TestFits holds every kind of run, hostile ones too, to the width asked for.
func TestFits(t *testing.T) {
	for name, r := range fixture.Every() {
		for _, width := range []int{40, 60, 80, 100, 132} {
			var b bytes.Buffer
			o := table.Options{Width: width}
			if err := write(&b, o, r); err != nil {
				t.Fatal(name, err)
			}
			if err := write(&b, o, r, nil, fixture.One()); err != nil {
				t.Fatal(name, err)
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := twwidth.Width(line); n > width && !isCommandLine(line) {
					t.Errorf("%s at %d: %d columns: %q", name, width, n, line)
				}
				if strings.ContainsFunc(line, unicode.IsControl) {
					t.Errorf("%s at %d: control character in %q", name, width, line)
				}
			}
		}
	}
}

func TestInvalidRunHasNoTimes(t *testing.T) {
	r := fixture.One() // times are there, and must not be printed
	r.Status = gpuprof.Invalid
	var b bytes.Buffer
	if err := write(&b, table.Options{}, r); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "throughput") || strings.Contains(s, "tensor_product  ") || !strings.Contains(s, "no times") {
		t.Errorf("an invalid run shows times:\n%s", s)
	}
}

func TestColorIsForMeaningOnly(t *testing.T) {
	var plain, colored bytes.Buffer
	for b, o := range map[*bytes.Buffer]table.Options{&plain: {}, &colored: {Color: true}} {
		if err := write(b, o, fixture.Three()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colour without being asked")
	}
	if n := strings.Count(colored.String(), "\x1b["); n != 4 { // status and one warning, on and off
		t.Errorf("%d escape sequences, want 4", n)
	}
}

// write prints the page of runs.
func write(w io.Writer, o table.Options, runs ...*gpuprof.Run) error {
	p, err := page.Runs(runs)
	if err != nil {
		return err
	}
	return table.Write(w, p, o)
}

// commandLine matches a line that holds one command and its label: it is not wrapped, so that a copy of it runs.
var commandLine = regexp.MustCompile(`^ {1,3}(\w[\w ]{0,20} {2,})?gpuprof \w`)

func isCommandLine(line string) bool { return commandLine.MatchString(line) }
