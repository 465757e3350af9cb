package bisect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/document"
)

type repository struct {
	run         judge.Children
	top, prefix string // root of the user's checkout, and the current folder's path in it
	git         string // git folder, which all worktrees share
}

// openRepository finds the git checkout that contains the current folder.
func openRepository(run judge.Children) (*repository, error) {
	r := &repository{run: run}
	var err error
	if r.top, r.prefix, err = run.Checkout(); err == nil {
		r.git, err = run.GitFolder("--git-common-dir")
	}
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return nil, err
	case err != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "finding the git checkout to search: %w", err).WithFix("run gpuprof bisect inside one")
	}
	if r.git, err = filepath.Abs(r.git); err != nil {
		return nil, gpuprof.Errorf(nil, "finding the current folder: %w", err).WithFix("change into one that exists")
	}
	return r, nil
}

// resolveRevision returns the full commit ID of a revision; ErrUsage if there is no revision of that name.
func (r *repository) resolveRevision(ref string) (string, error) {
	id, err := r.run.Revision(r.top, ref)
	if err == nil || errors.Is(err, cli.ErrInterrupted) {
		return id, err
	}
	fix := "give a branch, tag or commit"
	if shallow, err := r.run.Git(r.top, "rev-parse", "--is-shallow-repository"); err == nil && strings.TrimSpace(string(shallow)) == "true" {
		fix = "this clone is shallow: fetch the rest with git fetch --unshallow"
	}
	return "", gpuprof.Errorf(gpuprof.ErrUsage, "choosing the range of commits: %s is no git revision of %s", ref, r.top).WithFix("%s", fix)
}

type commitRange struct {
	good    bisect.Commit
	commits []bisect.Commit // oldest first; the last is BAD
	skipped []int           // commits of --skip; 1 is the first of commits
}

func (c *Cmd) listRange(r *repository, text string) (out commitRange, err error) {
	ends := strings.SplitN(text, "..", 2)
	var ids [2]string
	for i, ref := range ends {
		if ids[i], err = r.resolveRevision(ref); err != nil {
			return out, err
		}
	}
	if ids[0] == ids[1] {
		return out, gpuprof.Errorf(gpuprof.ErrUsage, "choosing the range of commits: %s and %s are the same commit", ends[0], ends[1]).WithFix("give an earlier GOOD")
	}
	if _, err := r.run.Git(r.top, "merge-base", "--is-ancestor", ids[0], ids[1]); err != nil {
		if errors.Is(err, cli.ErrInterrupted) {
			return out, err
		}
		return out, gpuprof.Errorf(gpuprof.ErrUsage, "choosing the range of commits: %s is no ancestor of %s", ends[0], ends[1]).WithFix("give the commit that they share (git merge-base %s %s), and GOOD before BAD; a shallow clone needs git fetch --unshallow", ends[0], ends[1])
	}
	good, err := r.readLog("-1", ids[0])
	if err != nil {
		return out, err
	}
	out.good = good[0]
	if out.commits, err = r.listChanging(ids, "--path", c.Path); err != nil {
		return out, err
	}
	if err := c.markLikely(r, ids, out.commits); err != nil {
		return out, err
	}
	err = c.markSkipped(r, &out)
	return out, err
}

// markLikely marks the commits that change a path of --prior: they are assumed to be likelier causes than others.
func (c *Cmd) markLikely(r *repository, ids [2]string, commits []bisect.Commit) error {
	if len(c.Prior) == 0 {
		return nil
	}
	likely, err := r.listChanging(ids, "--prior", c.Prior)
	if err != nil {
		return err
	}
	for i := range commits {
		commits[i].Likely = slices.ContainsFunc(likely, func(x bisect.Commit) bool { return x.ID == commits[i].ID })
	}
	return nil
}

// listChanging lists the commits of a range that change one of the paths, which the flag named flag gave; without
// paths, all commits. It refuses a path that no commit changes.
func (r *repository) listChanging(ids [2]string, flag string, paths []string) ([]bisect.Commit, error) {
	for _, path := range paths {
		commits, err := r.listCommits(ids, path)
		if err != nil {
			return nil, err
		}
		if len(commits) == 0 {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "choosing the range of commits: no commit of the range changes %s",
				path).WithFix("check %s, which is read from %s", flag, r.top)
		}
	}
	return r.listCommits(ids, paths...)
}

// listCommits lists the commits after ids[0] up to ids[1], oldest first, that change one of the paths; without paths,
// all commits.
func (r *repository) listCommits(ids [2]string, paths ...string) ([]bisect.Commit, error) {
	args := []string{"--reverse", "--first-parent", ids[0] + ".." + ids[1]}
	if len(paths) > 0 {
		args = append(append(args, "--"), paths...)
	}
	return r.readLog(args...)
}

// listMerged returns, for a merge of two parents, the commits of the merged branch and good, the commit at which the
// branch began. For other merges it returns none.
func (r *repository) listMerged(merge string) (good bisect.Commit, commits []bisect.Commit, err error) {
	if _, err := r.run.Revision(r.top, merge+"^3"); err == nil || errors.Is(err, cli.ErrInterrupted) {
		return good, nil, err
	}
	base, err := r.run.Git(r.top, "merge-base", merge+"^1", merge+"^2")
	if err != nil {
		if errors.Is(err, cli.ErrInterrupted) {
			return good, nil, err
		}
		return good, nil, nil // the two histories have no common commit
	}
	id := strings.TrimSpace(string(base))
	began, err := r.readLog("-1", id)
	if err == nil {
		commits, err = r.readLog("--reverse", "--first-parent", id+".."+merge+"^2")
	}
	if err != nil || len(began) == 0 {
		return good, nil, err
	}
	return began[0], commits, nil
}

func (r *repository) readLog(args ...string) ([]bisect.Commit, error) {
	out, err := r.run.Git(r.top, slices.Concat([]string{"log", "--no-color", "--no-show-signature", "--format=%H%x09%P%x09%s"}, args)...)
	if errors.Is(err, cli.ErrInterrupted) {
		return nil, err
	}
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "listing the commits of the range: %w", err).WithFix("check GOOD..BAD and --path")
	}
	var commits []bisect.Commit
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) < 3 {
			continue
		}
		commits = append(commits, bisect.Commit{ID: f[0], Subject: document.CleanText(f[2]), Merge: strings.Contains(f[1], " ")})
	}
	return commits, nil
}

func (c *Cmd) markSkipped(r *repository, out *commitRange) error {
	for _, ref := range c.Skip {
		id, err := r.resolveRevision(ref)
		if err != nil {
			return err
		}
		m := 1 + slices.IndexFunc(out.commits, func(x bisect.Commit) bool { return x.ID == id })
		if m == 0 || m == len(out.commits) {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading --skip %s: it is no commit between GOOD and BAD", ref).WithFix("give a commit of the range")
		}
		out.skipped = append(out.skipped, m)
	}
	return nil
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
