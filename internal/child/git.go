package child

// Git is a git command in a folder, "" for the present one. The repository may be anybody's, so
// that git runs no program that it or its configuration names for other purposes than its
// content: no hook, no monitor of files, no maintenance, no check of signatures, and it asks no
// user for a password. Submodules are checked out by gpuprof alone. Filters (Git LFS) stay, since
// a checkout without them has other files, and so does the transport by which a partial clone
// fetches what it lacks.
func Git(dir string, args ...string) Command {
	off := []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "log.showSignature=false", "submodule.recurse=false"}
	all := []string{"git"}
	for _, setting := range off {
		all = append(all, "-c", setting)
	}
	return Command{Args: append(all, args...), Dir: dir, Env: []string{"GIT_TERMINAL_PROMPT=0"}}
}
