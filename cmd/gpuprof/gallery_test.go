//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/internal/health"
)

const galleryPictures = "docs/pictures/"

// TestGallery: what docs/gallery.md and README.md show is what the commands in
// their comments print and draw now, from recorded runs. With -update (make
// gallery) it writes pages and pictures again.
func TestGallery(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("COLUMNS", "96")
	checkShown(t, "docs/gallery.md", 10)
	checkShown(t, "README.md", 2)
	checkShown(t, "docs/tutorial.md", 3)
}

// checkShown runs the commands of a page, at least so many. Behind a bar stands
// the filter that shortens what a command printed.
func checkShown(t *testing.T, path string, least int) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	var out strings.Builder
	commands := 0
	lines := strings.SplitAfter(string(page), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i])
		command, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "<!-- gpuprof ")
		if !ok {
			continue
		}
		commands++
		command, filter, filtered := strings.Cut(strings.TrimSuffix(command, "-->"), " | ")
		var text string
		if recording, ok := strings.CutPrefix(command, "doctor --bench, recorded in "); ok {
			text = recordedBench(t, recording)
		} else {
			text = showGallery(t, strings.Fields(command), scratch)
		}
		if filtered {
			sh := exec.CommandContext(t.Context(), "sh", "-c", filter)
			sh.Stdin = strings.NewReader(text)
			short, err := sh.Output()
			if err != nil || len(short) == 0 {
				t.Fatalf("%s leaves nothing of what gpuprof %s prints: %v\n%s", filter, command, err, text)
			}
			text = string(short)
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "```") {
			out.WriteString(lines[i+1] + text)
			for i += 2; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				continue // what it printed before
			}
			out.WriteString(lines[i])
		}
	}
	if commands < least {
		t.Errorf("%d commands in %s", commands, path)
	}
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case out.String() != string(page):
		t.Errorf("%s is stale: its commands print something else now; run make gallery", path)
	}
}

// recordedBench is the report of doctor --bench on the figures in its recorded
// JSON, judged by the ranges of today.
func recordedBench(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cards, err := doctor.CardsOf(text, "cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := doctor.ShippedRanges()
	if err != nil {
		t.Fatal(err)
	}
	report, err := health.Judge(nil, cards, ranges, wired.tables().Tool)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := wired.tables().Documents.Health.Write(&b, "table", report, cli.Screen{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// showGallery runs one command of the gallery and returns what it printed. A
// picture goes where it says, or beside and is compared.
func showGallery(t *testing.T, args []string, scratch string) string {
	t.Helper()
	drawn, kept := "", ""
	for i, a := range args {
		if strings.HasPrefix(a, galleryPictures) && !*update {
			kept, drawn = a, filepath.Join(scratch, filepath.Base(a))
			args[i] = drawn
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), selfPath(t), args...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = "gpuprof", &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != cli.ExitInconclusive {
		t.Fatalf("gpuprof %s: %v, %s", strings.Join(args, " "), err, &stderr)
	}
	if drawn != "" {
		if off := pictureDifference(t, drawn, kept); off > 0.0005 {
			t.Errorf("%s is stale: %.2f %% of its pixels differ from what gpuprof %s draws; run make gallery", kept, off*100, strings.Join(args, " "))
		}
	}
	return stdout.String()
}

// pictureDifference is the share of pixels that differ by more than an eighth
// of the scale, which builds of Go that round differently do not reach.
func pictureDifference(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := pixels(t, a), pixels(t, b)
	if x.Bounds() != y.Bounds() {
		return 1
	}
	off := 0
	for i := 0; i < len(x.Pix); i += 4 {
		for c := range 3 {
			if p, q := x.Pix[i+c], y.Pix[i+c]; max(p, q)-min(p, q) > 32 {
				off++
				break
			}
		}
	}
	return float64(off) / float64(len(x.Pix)/4)
}

func pixels(t *testing.T, path string) *image.RGBA {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v; run make gallery", err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewRGBA(img.Bounds())
	draw.Draw(out, out.Bounds(), img, image.Point{}, draw.Src)
	return out
}
