package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// homes hold the folders of users.
var homes = [...]string{"/home", "/Users"}

// mostUp limits the ".." at the start of a path: a path with more is less clear than one from the root.
const mostUp = 2

// StoredPath is a file's name as commands in a result may hold it, which others will
// read: from the present folder where that is near, from the user's home otherwise
// ("~/runs/a.json"), and without its folder where that is another user's. What was
// typed as a relative path stays, and so do devices.
func StoredPath(path string) string {
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) || firstPart(path) == "dev" {
		return path
	}
	rel, err := filepath.Rel(here, path)
	near := err == nil && firstPart(here) == firstPart(path) && !strings.HasPrefix(filepath.ToSlash(rel), strings.Repeat("../", mostUp+1))
	home, err := os.UserHomeDir()
	if rest, ok := below(home, path); err == nil && ok {
		if _, inside := below(home, here); !inside || !near {
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

// firstPart is the folder below the root that a path is in.
func firstPart(path string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), "/"), "/")
	return part
}

// ownerOf is the user whose home a path is in, "" for none.
func ownerOf(path string) string {
	for _, h := range homes {
		if rest, ok := below(h, path); ok {
			owner, _, _ := strings.Cut(filepath.ToSlash(rest), "/")
			return owner
		}
	}
	return ""
}

// below returns a path relative to a folder that contains it; ok is false for other paths, and for the root as the
// folder.
func below(folder, path string) (rest string, ok bool) {
	rest, err := filepath.Rel(folder, path)
	return rest, err == nil && filepath.Dir(folder) != folder && rest != "." && filepath.IsLocal(rest)
}

// ShownPath is StoredPath where nothing will be opened by it: of an absolute path the
// file and its folder are left.
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

// IsDir reports whether a path leads to a folder.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
