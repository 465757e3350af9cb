package cli

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
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
	h := sha256.New()
	if id := buildID(exe); len(id) > 0 {
		h.Write(id)
		return hex.EncodeToString(h.Sum(nil))
	}
	f, err := os.Open(exe)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// buildID is the note in which the Go tool leaves a hash of the content of an ELF file, nil without one. To hash the
// whole program would take longer than everything else before a run.
func buildID(path string) []byte {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return nil
	}
	note, err := s.Data()
	if err != nil || len(note) <= emptyNote {
		return nil
	}
	return note
}

// emptyNote is the size in bytes of the note of a program linked with an empty build ID: three lengths, and "Go" padded.
const emptyNote = 16

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
