package input

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// fromHere returns a function that makes the paths in a text relative to the current folder, as in "/home/u/train.py:41
// in step".
func fromHere() func(text string) string {
	here, err := os.Getwd()
	if err != nil || here == string(filepath.Separator) {
		return func(text string) string { return text }
	}
	return func(text string) string { return strings.ReplaceAll(text, here+string(filepath.Separator), "") }
}

func shortenFindings(findings []gpuprof.Finding, shorten func(string) string) {
	for i := range findings {
		f := &findings[i]
		f.Title = shorten(f.Title)
		for j := range f.Sites {
			f.Sites[j].Where = shorten(f.Sites[j].Where)
		}
	}
}

func shortenMemory(a *memsnap.Analysis, shorten func(string) string) {
	lines := func(sites []memsnap.SiteBytes) {
		for i := range sites {
			sites[i].Where = shorten(sites[i].Where)
		}
	}
	for i := range a.Findings {
		a.Findings[i].Title = shorten(a.Findings[i].Title)
		lines(a.Findings[i].Sites)
	}
	for i := range a.Devices {
		d := &a.Devices[i]
		for j := range d.Growth {
			d.Growth[j].Where = shorten(d.Growth[j].Where)
		}
		lines(d.Peak.Sites)
		lines(d.End.Sites)
		for j := range d.OOMs {
			lines(d.OOMs[j].Sites)
		}
		if d.At != nil {
			lines(d.At.Sites)
		}
	}
}
