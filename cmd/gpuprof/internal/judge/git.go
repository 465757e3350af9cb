package judge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
)

// errNoRevision refuses a revision that git would read as a flag.
var errNoRevision = errors.New("it begins with a minus")

// Revision returns the full ID of the commit that ref names in the repository at dir; "" is the current folder. The
// error is cli.ErrInterrupted, or the reason why ref names no commit.
func (c Children) Revision(dir, ref string) (string, error) {
	if strings.HasPrefix(ref, "-") {
		return "", errNoRevision
	}
	out, err := c.Git(dir, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

// Differs reports whether a tracked file differs from the commit checked out at dir. It is true if git fails.
func (c Children) Differs(dir string) bool {
	changes, err := c.Git(dir, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
	return err != nil || len(changes) > 0
}

// Checkout returns the root of the checkout that contains the current folder, and the current folder's path in it.
// Symbolic links are resolved.
func (c Children) Checkout() (top, prefix string, err error) {
	if top, err = c.GitFolder("--show-toplevel"); err == nil {
		prefix, err = c.GitFolder("--show-prefix")
	}
	return top, prefix, err
}

// GitFolder returns the folder that git rev-parse prints for a flag. It removes only the last line break, since a
// folder's name may contain others.
func (c Children) GitFolder(flag string) (string, error) {
	out, err := c.Git("", "rev-parse", flag)
	return strings.TrimSuffix(string(out), "\n"), err
}

// isUnchanged reports whether the checkout at top is at the revision ref, without changed tracked files.
func (c Children) isUnchanged(top, ref string) bool {
	head, err := c.Revision(top, "HEAD")
	commit, err2 := c.Revision(top, ref)
	return err == nil && err2 == nil && head == commit && !c.Differs(top)
}

// Worktree checks out a revision into dir, inside the scratch folder. Closing scratch removes the checkout.
func (c Children) Worktree(scratch *child.Scratch, top, ref, dir string) error {
	commit, err := c.Revision(top, ref)
	if errors.Is(err, cli.ErrInterrupted) {
		return err
	}
	if err != nil {
		return unknownRevision(ref, top, err)
	}
	if err := scratch.Tree(top, dir); err != nil {
		return gpuprof.Errorf(nil, "noting the checkout %s: %w", dir, err).WithFix("check TMPDIR")
	}
	if err := c.GitDo(top, "worktree", "add", "--detach", "--force", dir, commit); err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "checking out %s: %w", ref, err).WithFix("see git worktree list")
	}
	return c.Submodules(top, dir)
}

// Submodules checks out the submodules of the checkout tree, each at the commit that tree's revision records. It clones
// them from the submodules of the user's checkout, top. A submodule that is not checked out in top stays empty.
func (c Children) Submodules(top, tree string) error {
	list, err := c.Git(tree, "ls-files", "-z", "--stage")
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrInput, "listing the submodules of %s: %w", tree, err)
	}
	for entry := range strings.SplitSeq(string(list), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		f := strings.Fields(about)
		if len(f) != 3 || f[0] != "160000" {
			continue
		}
		from, to := filepath.Join(top, path), filepath.Join(tree, path)
		if _, err := os.Lstat(filepath.Join(from, ".git")); err != nil {
			continue
		}
		err := c.GitDo(top, "clone", "--quiet", "--template=", "--shared", "--no-checkout", "--", from, to)
		if err == nil {
			err = c.GitDo(to, "checkout", "--quiet", "--detach", f[1])
		}
		if err != nil {
			return gpuprof.Errorf(gpuprof.ErrInput, "checking out the submodule %s at %.12s: %w", path, f[1], err).WithFix("fetch that commit with git -C %s fetch", path)
		}
		if err := c.Submodules(from, to); err != nil {
			return err
		}
	}
	return nil
}
