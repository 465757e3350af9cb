package main

import (
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/gpuprof/gpuprof"
)

// opener is the program of this system that opens a page in a browser, with the
// arguments that come before the page.
func opener() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return []string{"xdg-open"}
}

// openReport opens the first HTML report that was written.
func (a *app) openReport() error {
	if len(a.pages) == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening a report: no HTML report was written").WithFix("add -o report.html")
	}
	page, err := filepath.Abs(a.pages[0])
	if err != nil {
		page = a.pages[0]
	}
	by := opener()
	if err := exec.CommandContext(a.ctx, by[0], append(by[1:], page)...).Run(); err != nil {
		return gpuprof.Errorf(nil, "opening %s with %s: %w", a.pages[0], by[0], err).WithFix("open the file in a browser by hand")
	}
	return nil
}
