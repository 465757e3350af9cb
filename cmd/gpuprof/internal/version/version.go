// Package version implements gpuprof version, which prints the program's version, schema versions and licenses. It
// imports package cli, but no package of another subcommand.
package version

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Cmd has the flags of gpuprof version.
type Cmd struct {
	Format   string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
	Licenses bool   `help:"Print the license texts of the modules inside this program instead."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return cli.Examples("gpuprof version", "gpuprof version --format json", "gpuprof version --licenses")
}

// Run implements gpuprof version.
func (c *Cmd) Run(a *cli.App) error {
	if c.Licenses {
		if c.Format != "table" {
			return gpuprof.Errorf(gpuprof.ErrUsage, "printing the licenses: they are text").WithFix("leave out --format %s", c.Format)
		}
		_, err := io.WriteString(a.Stdout, gpuprof.ThirdPartyNotices())
		return err
	}
	t := a.Tool
	if c.Format == "json" {
		return cli.WriteJSON(a.Stdout, map[string]any{
			"name": t.Name, "version": t.Version, "commit": t.Commit, "go": runtime.Version(),
			"schemas": map[string]string{"run": document.Version(document.Run), "check": document.Version(document.Check)},
		})
	}
	_, err := fmt.Fprintf(a.Stdout, "gpuprof %s (commit %s, %s, run schema %s)\n", t.Version, cmp.Or(t.Commit, "unknown"), runtime.Version(), document.Version(document.Run))
	return err
}
