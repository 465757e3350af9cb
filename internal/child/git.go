package child

// Git returns a git command in a folder; "" is the current one. The repository is untrusted: git runs no program that
// the repository or its configuration names (hooks, file monitor, maintenance, signature check, password prompt), and
// only gpuprof checks out submodules. There are two exceptions: filters (Git LFS), since they change the files of a
// checkout, and the transport by which a partial clone fetches missing objects.
func Git(dir string, args ...string) Command {
	off := []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "log.showSignature=false", "submodule.recurse=false"}
	all := []string{"git"}
	for _, setting := range off {
		all = append(all, "-c", setting)
	}
	return Command{Args: append(all, args...), Dir: dir, Env: []string{"GIT_TERMINAL_PROMPT=0"}}
}
