package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gpuprof/gpuprof"
)

// Distribution is the name of gpuprof's package on PyPI, where gpuprof is another project, and of the second command
// that the package installs. The wheel has it in _name.py, which a test compares.
const Distribution = "gpuprof-cli"

// ToolOf is the gpuprof that this process is: version and commit as the linker set them, else what
// the Go tool recorded about the sources.
func ToolOf(version, commit string) gpuprof.Tool {
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

// BuildHash identifies this binary, so that a check that passed is trusted
// only by the very code that passed it; empty when it cannot be read.
func BuildHash() string {
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

// CheckCache returns the folder that stores passed checks, and the hash of the build for which they passed. Without a
// folder or a hash both are empty, and every run checks again.
func CheckCache() (dir, build string) {
	dir, err := CacheDir()
	build = BuildHash()
	if err != nil || build == "" {
		return "", ""
	}
	return dir, build
}

// CacheDir is the folder for what gpuprof keeps of this user.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", gpuprof.Errorf(nil, "finding the cache of this user: %w", err).WithFix("set XDG_CACHE_HOME or HOME")
	}
	return filepath.Join(dir, "gpuprof"), nil
}
