package main

import (
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// browserCommand returns the system's command that opens a page in a browser; the page is its last argument.
func browserCommand() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return []string{"xdg-open"}
}

// openReport opens the first HTML report of this command in a browser.
func openReport(a *cli.App) error {
	if len(a.Pages) == 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "opening a report: no HTML report was written").WithFix("add -o report.html")
	}
	page, err := filepath.Abs(a.Pages[0])
	if err != nil {
		page = a.Pages[0]
	}
	by := browserCommand()
	if err := exec.CommandContext(a.Ctx, by[0], append(by[1:], page)...).Run(); err != nil {
		return gpuprof.Errorf(nil, "opening %s with %s: %w", a.Pages[0], by[0], err).WithFix("open the file in a browser by hand")
	}
	return nil
}
