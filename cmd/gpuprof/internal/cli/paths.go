package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// homes are the usual parents of users' home folders.
var homes = [...]string{"/home", "/Users"}

// mostUp limits the number of ".." at the start of a relative path. With more, the absolute path is clearer.
const mostUp = 2

// StoredPath returns a file's name for commands in a result that other users may read. A file near the current folder
// gets a path relative to it. Others get a path relative to the user's home ("~/runs/a.json"), and a file of another
// user its bare name. Relative paths and devices are unchanged.
func StoredPath(path string) string {
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) || firstPart(path) == "dev" {
		return path
	}
	rel, err := filepath.Rel(here, path)
	near := err == nil && firstPart(here) == firstPart(path) && !strings.HasPrefix(filepath.ToSlash(rel), strings.Repeat("../", mostUp+1))
	home, err := os.UserHomeDir()
	if rest, ok := relativeTo(home, path); err == nil && ok {
		if _, inside := relativeTo(home, here); !inside || !near {
			return filepath.Join("~", rest)
		}
	}
	if slices.Contains(homes[:], "/"+firstPart(path)) {
		if owner := ownerOf(path); owner == "" || ownerOf(here) != owner {
			return filepath.Base(path)
		}
	}
	if near {
		return rel
	}
	return path
}

// firstPart returns the name of a path's first folder below the root.
func firstPart(path string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), "/"), "/")
	return part
}

// ownerOf returns the user whose home contains the path, or "".
func ownerOf(path string) string {
	for _, h := range homes {
		if rest, ok := relativeTo(h, path); ok {
			owner, _, _ := strings.Cut(filepath.ToSlash(rest), "/")
			return owner
		}
	}
	return ""
}

// relativeTo returns path relative to a folder that contains it. ok is false for other paths, and if folder is the
// root.
func relativeTo(folder, path string) (rest string, ok bool) {
	rest, err := filepath.Rel(folder, path)
	return rest, err == nil && filepath.Dir(folder) != folder && rest != "." && filepath.IsLocal(rest)
}

// ShownPath is like StoredPath, but for display only: it shortens an absolute path to the file and its folder.
func ShownPath(path string) string {
	if path = StoredPath(path); filepath.IsAbs(path) && firstPart(path) != "dev" {
		path = filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
		path = strings.TrimPrefix(path, string(filepath.Separator))
	}
	return path
}

// SameFile reports whether two paths lead to one existing file or folder.
func SameFile(a, b string) bool {
	one, err1 := os.Stat(a)
	two, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// IsDir reports whether path is a folder; false if it cannot be read.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
