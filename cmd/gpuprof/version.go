package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Set by the linker: -ldflags "-X main.version=1.2.3 -X main.commit=abcdef".
var version, commit string

type versionCmd struct {
	Format   string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
	Licenses bool   `help:"Print the license texts of the modules inside this program instead."`
}

// Help implements kong.HelpProvider.
func (versionCmd) Help() string {
	return examples("gpuprof version", "gpuprof version --format json", "gpuprof version --licenses")
}

// Run implements the verb.
func (c *versionCmd) Run(a *app) error {
	if c.Licenses {
		if c.Format != "table" {
			return gpuprof.Errorf(gpuprof.ErrUsage, "printing the licenses: they are text").WithFix("leave out --format %s", c.Format)
		}
		_, err := io.WriteString(a.stdout, gpuprof.ThirdPartyNotices())
		return err
	}
	t := tool()
	if c.Format == "json" {
		return writeJSON(a.stdout, map[string]any{
			"name": t.Name, "version": t.Version, "commit": t.Commit, "go": runtime.Version(),
			"schemas": map[string]string{"run": document.Version(document.Run), "check": document.Version(document.Check)},
		})
	}
	_, err := fmt.Fprintf(a.stdout, "gpuprof %s (commit %s, %s, run schema %s)\n", t.Version, cmp.Or(t.Commit, "unknown"), runtime.Version(), document.Version(document.Run))
	return err
}

// tool says which gpuprof this is: the linker's word, else what the Go tool
// recorded about the sources.
func tool() gpuprof.Tool {
	t := gpuprof.Tool{Name: "gpuprof", Version: version, Commit: commit}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	t.Version = cmp.Or(t.Version, info.Main.Version, "(devel)")
	t.Commit = cmp.Or(t.Commit, revision(info.Settings))
	return t
}

func revision(settings []debug.BuildSetting) string {
	rev := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true" && rev != "":
			rev += "-modified"
		}
	}
	return rev
}

// buildHash identifies this binary, so that a check that passed is trusted
// only by the very code that passed it; empty when it cannot be read.
func buildHash() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(exe)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkCache is where passed checks are remembered and the build they are
// remembered for. Without a place or a hash both are empty, and every run
// checks again.
func checkCache() (dir, build string) {
	dir, err := cacheDir()
	build = buildHash()
	if err != nil || build == "" {
		return "", ""
	}
	return dir, build
}

// cacheDir is the folder for what gpuprof keeps of this user.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", gpuprof.Errorf(nil, "finding the cache of this user: %w", err).WithFix("set XDG_CACHE_HOME or HOME")
	}
	return filepath.Join(dir, "gpuprof"), nil
}

// writeJSON prints one JSON document, indented for reading.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return gpuprof.Errorf(nil, "encoding JSON: %w", err).WithFix("this is a fault in gpuprof, please report it")
	}
	return nil
}
