package child

// Git returns a git command in a folder, "" for the current one. The repository is untrusted: git runs no program that
// the repository or its configuration names (hooks, file monitor, maintenance, signature check, password prompt),
// except for reading content. Submodules are checked out only by gpuprof. Filters (Git LFS) stay on, since they change
// the files of a checkout, as does the transport by which a partial clone fetches missing objects.
func Git(dir string, args ...string) Command {
	off := []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "log.showSignature=false", "submodule.recurse=false"}
	all := []string{"git"}
	for _, setting := range off {
		all = append(all, "-c", setting)
	}
	return Command{Args: append(all, args...), Dir: dir, Env: []string{"GIT_TERMINAL_PROMPT=0"}}
}
