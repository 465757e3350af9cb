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

// Distribution is the name of gpuprof's package on PyPI, where the name gpuprof belongs to another project. It is also
// the name of a second command that the package installs. A test compares it with the wheel's _name.py.
const Distribution = "gpuprof-cli"

// ToolOf returns this gpuprof's version and commit: those that the linker set, or else those that the Go tool recorded.
func ToolOf(version, commit string) gpuprof.Tool {
	t := gpuprof.Tool{Name: "gpuprof", Version: version, Commit: commit}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	t.Version = cmp.Or(t.Version, info.Main.Version, "(devel)")
	t.Commit = cmp.Or(t.Commit, findRevision(info.Settings))
	return t
}

func findRevision(settings []debug.BuildSetting) string {
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

// BuildHash returns a hash of this binary; "" if the binary cannot be read. The results of passed checks are cached
// under it, so that they count for equal binaries only.
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

// buildID returns the note with the Go build ID of an ELF file, which is a hash of the file's content; nil if there is
// none. Hashing the whole file would take longer than everything else before a run.
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

// emptyNote is the size, bytes, of the note of an empty build ID: three lengths, and "Go" padded.
const emptyNote = 16

// CheckCache returns the folder with the results of passed checks, and the hash of this build; both are "" if one is
// unknown.
func CheckCache() (dir, build string) {
	dir, err := CacheDir()
	build = BuildHash()
	if err != nil || build == "" {
		return "", ""
	}
	return dir, build
}

// CacheDir returns the folder for files that gpuprof keeps for this user.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", gpuprof.Errorf(nil, "finding the cache of this user: %w", err).WithFix("set XDG_CACHE_HOME or HOME")
	}
	return filepath.Join(dir, "gpuprof"), nil
}
