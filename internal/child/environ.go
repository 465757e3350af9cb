// Package child runs the programs that gpuprof starts.
package child

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// gitLocal are the variables that tie git to one repository: what git rev-parse
// --local-env-vars prints in 2.39, and those that other versions print. A git
// that is there adds its own.
var gitLocal = [...]string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
	"GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY",
	"GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
	"GIT_QUARANTINE_PATH",
}

// Environ is this process's environment without the variables that tie git to
// one repository. A git hook has them: git would otherwise write another
// checkout's files into the index that is being committed.
func Environ() []string { return without(os.Environ(), askGit) }

// without leaves out git's local variables; ask is asked only where some variable
// is git's, so that no git is started for nothing.
func without(env []string, ask func() []string) []string {
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

// askGit is what this machine's git calls local; nothing where it is too old or
// not there.
func askGit() []string {
	out, err := exec.Command("git", "rev-parse", "--local-env-vars").Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}
