package child

// Git returns a git command in a folder, "" for the present one. The repository is untrusted, so git runs no program
// that the repository or its configuration names, except for reading content: no hook, file monitor, maintenance,
// signature check or password prompt. Only gpuprof checks out submodules. Filters (Git LFS) stay on, since a checkout
// without them has different files, as does the transport by which a partial clone fetches missing objects.
func Git(dir string, args ...string) Command {
	off := []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "log.showSignature=false", "submodule.recurse=false"}
	all := []string{"git"}
	for _, setting := range off {
		all = append(all, "-c", setting)
	}
	return Command{Args: append(all, args...), Dir: dir, Env: []string{"GIT_TERMINAL_PROMPT=0"}}
}
