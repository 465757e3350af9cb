package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// oldProgram is the full path of the program that --against names, "" where it
// names a git revision. Only what is written as a path is a program: a file that
// is called like a revision must never be measured in its place.
func (c *gateCmd) oldProgram() (string, error) {
	if !writtenAsPath(c.Against) {
		return "", nil
	}
	program, ok := executable(c.Against)
	if !ok {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: there is no program %s, and a name that begins so is no git revision", c.Against).WithFix("give the path of a program that can be run, or a branch, tag or commit")
	}
	return program, nil
}

// writtenAsPath: no git revision begins like that.
func writtenAsPath(name string) bool {
	return filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../")
}

// executable is the full path of a program, if it is one.
func executable(name string) (string, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", false
	}
	full, err := filepath.Abs(name)
	return full, err == nil
}

// alsoProgram tells of a program with the name of the revision that is measured.
func (c *gateCmd) alsoProgram(a *app) {
	if _, ok := executable(c.Against); ok {
		a.note("%s is a git revision and also a program here; the revision is measured; write ./%s for the program", c.Against, c.Against)
	}
}

// noRevision is the error of a name that git does not know. top is the checkout,
// "" where there is none.
func noRevision(name, top string, cause error) error {
	fix := "give a branch, tag or commit (a shallow clone may lack it), or the path of a program, such as ./old"
	if _, ok := executable(name); ok {
		fix = "fetch it (a shallow clone may lack it), or write ./" + name + " for the program of that name"
	}
	if top == "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side %s: finding the git checkout: %w", name, cause).WithFix("run gate inside one, or %s", fix)
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "choosing the old side: %s is no git revision of %s", name, top).WithFix("%s", fix)
}
