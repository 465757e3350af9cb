package child

// Git is a git command in a folder, "" for the present one. The repository may be anybody's:
// no program that it names is run, neither a hook nor a monitor of its files nor a maintenance
// job, and no user is asked for a password. Filters of .gitattributes (such as Git LFS) stay, since a
// checkout without them holds other files than the user has; git takes them only from
// configuration of the user and of the repository's owner.
func Git(dir string, args ...string) Command {
	return Command{Args: append([]string{"git",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "core.pager=cat", "-c", "log.showSignature=false", "-c", "submodule.recurse=false",
	}, args...), Dir: dir, Env: []string{"GIT_TERMINAL_PROMPT=0"}}
}
