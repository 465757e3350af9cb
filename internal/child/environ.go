// Package child runs the programs that gpuprof starts.
package child

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// gitLocal lists the variables that tie git to one repository: those that git rev-parse --local-env-vars prints in 2.39
// and other versions. The list of the installed git is added.
var gitLocal = [...]string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
	"GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY",
	"GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
	"GIT_QUARANTINE_PATH",
}

// Environ returns this process's environment without the variables that tie git to one repository. They are set inside
// a git hook; git would then write another checkout's files into the index of the commit.
func Environ() []string { return removeLocal(os.Environ(), askGit) }

// removeLocal removes git's local variables. It calls ask, which starts git, only if the environment has a GIT_
// variable.
func removeLocal(env []string, ask func() []string) []string {
	isGit := func(kv string) bool { return strings.HasPrefix(kv, "GIT_") }
	if !slices.ContainsFunc(env, isGit) {
		return env
	}
	drop := slices.Concat(gitLocal[:], ask())
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(drop, name)
	})
}

// askGit returns the variables that the installed git considers local; nil if git is absent or too old.
func askGit() []string {
	out, err := exec.Command("git", "rev-parse", "--local-env-vars").Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}
