package bisect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/child"
)

// The checkouts (worktrees) of a search. Their paths have equal lengths, because a path's length can shift a program's
// addresses.
const (
	treeGood      = iota
	treeCandidate // has the commit that is measured
	treeParent    // has the parent commit, if a commit is compared with its parent
	treeCount
)

// workTrees has the checkouts of a search and their builds.
type workTrees struct {
	run   judge.Children
	repo  *repository
	room  *child.Scratch // temporary folder of the checkouts
	again *recipe
	cache *artifacts        // nil without --artifact
	at    [treeCount]string // the commit built in each tree; "" without one
	clock func() time.Time
}

func newTrees(run judge.Children, repo *repository, again *recipe) (*workTrees, error) {
	room, err := child.NewScratch("bisect")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the search: %w", err).WithFix("check TMPDIR")
	}
	t := &workTrees{run: run, repo: repo, room: room, again: again, clock: time.Now}
	if again.How.Artifact != "" {
		if t.cache, err = openArtifacts(run, again.How); err != nil {
			room.Close()
			return nil, err
		}
	}
	return t, nil
}

func (t *workTrees) treeFolder(tree int) string { return filepath.Join(t.room.Dir, "abc"[tree:tree+1]) }

// binaryPath returns the path of the gpuprof that is built from a tree.
func (t *workTrees) binaryPath(tree int) string {
	return filepath.Join(t.room.Dir, "gpuprof-"+"abc"[tree:tree+1])
}

// prepareTree checks a commit out into a tree and builds it, if the tree does not have this build already. built
// reports a new build, took is its time, and cached reports that its artifact came from the cache.
func (t *workTrees) prepareTree(tree int, commit bisect.Commit) (built, cached bool, took time.Duration, err error) {
	if t.at[tree] == commit.ID {
		return false, false, 0, nil
	}
	began := t.clock()
	t.at[tree] = ""
	place := t.placeOf(tree)
	if err = t.checkOut(tree, commit.ID); err == nil {
		err = t.run.Link(place, t.again.How.Link)
	}
	if err == nil {
		cached, err = t.buildTree(tree, commit.ID)
		err = t.run.WithLacking(commit.Short(), &place, err)
	}
	took = t.clock().Sub(began)
	if err == nil {
		t.at[tree] = commit.ID
	}
	return err == nil, cached, took, err
}

func (t *workTrees) checkOut(tree int, id string) error {
	dir := t.treeFolder(tree)
	if !pathExists(dir) {
		return t.run.Worktree(t.room, t.repo.top, id, dir)
	}
	if err := t.clearSubmodules(dir); err != nil {
		return err
	}
	clean := []string{"clean", "-ffdxq"}
	for _, k := range t.again.How.Keep {
		clean = append(clean, "-e", strings.TrimSuffix(k, "/"))
	}
	for _, args := range [][]string{{"checkout", "--quiet", "--detach", "--force", id}, clean} {
		if err := t.run.GitDo(dir, args...); err != nil {
			if errors.Is(err, cli.ErrInterrupted) {
				return err
			}
			return gpuprof.Errorf(gpuprof.ErrInput, "checking out %.7s: %w", id, err).WithFix("see git -C %s worktree list, and free space in TMPDIR", t.repo.top)
		}
	}
	return t.run.Submodules(t.repo.top, dir)
}

// clearSubmodules empties a tree's submodules, because another commit may have other submodules.
func (t *workTrees) clearSubmodules(dir string) error {
	list, err := t.run.Git(dir, "ls-files", "-z", "--stage")
	if err != nil {
		return err
	}
	for entry := range strings.SplitSeq(string(list), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		if strings.HasPrefix(about, "160000 ") {
			if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
				return gpuprof.Errorf(gpuprof.ErrInput, "emptying the submodule %s: %w", path, err).WithFix("check TMPDIR")
			}
		}
	}
	return nil
}

// buildTree builds a tree's commit, or restores its artifact from the cache.
func (t *workTrees) buildTree(tree int, id string) (cached bool, err error) {
	if _, err := os.Stat(t.runFolder(tree)); err != nil {
		return false, gpuprof.Errorf(gpuprof.ErrInput, "building %.7s: it has no folder %s, where the command would run", id, t.again.Prefix).WithFix("run bisect in a folder that all commits have")
	}
	how, dir := t.again.How, t.runFolder(tree)
	if t.cache != nil {
		if cached, err = t.cache.restoreArtifact(t.repo, id, dir); cached || err != nil {
			return cached, err
		}
	}
	if how.Build != "" {
		if err := t.run.Shell(dir, how.Build); err != nil {
			return false, err
		}
	}
	if t.again.Workload != "" {
		top := t.treeFolder(tree)
		if err := t.run.Command(top, "go", "build", "-trimpath", "-buildvcs=false", "-o", t.binaryPath(tree), "./cmd/gpuprof"); err != nil {
			return false, gpuprof.Errorf(gpuprof.ErrInput, "building gpuprof at %.7s: %w", id, err).WithFix("a workload needs gpuprof's own checkout, other programs go after --")
		}
	}
	if t.cache != nil {
		return false, t.cache.storeArtifact(t.repo, id, dir)
	}
	return false, nil
}

// runFolder returns the folder of a checkout (tree) in which the command is built and run.
func (t *workTrees) runFolder(tree int) string {
	if t.again.Workload != "" {
		return t.treeFolder(tree)
	}
	return filepath.Join(t.treeFolder(tree), filepath.FromSlash(t.again.Prefix))
}

func (t *workTrees) placeOf(tree int) judge.Place {
	return judge.Place{Top: t.repo.top, Prefix: t.repo.prefix, Tree: t.treeFolder(tree)}
}

// makeSide returns how to run the build in a checkout. Messages name the build by its commit.
func (t *workTrees) makeSide(tree int, commit bisect.Commit) (judge.Side, error) {
	if t.again.Workload == "" {
		c, place := judge.Builds{Result: t.again.How.Result}, t.placeOf(tree)
		return judge.Side{Name: commit.Short(), Dir: t.runFolder(tree), Args: t.again.Command, File: c.ResultIn(t.runFolder(tree)), Made: &place}, nil
	}
	how := t.again.How
	c := judge.Builds{Args: []string{t.again.Workload}, Preset: how.Preset, Set: how.Set, Device: how.Device, MinTime: how.MinTime, Against: commit.Short()}
	scratch := filepath.Join(t.room.Dir, "run-"+"abc"[tree:tree+1])
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return judge.Side{}, gpuprof.Errorf(nil, "making a folder for a result: %w", err).WithFix("check TMPDIR")
	}
	sides, err := c.WorkloadSides(t.run.App, t.binaryPath(tree), t.binaryPath(tree), scratch)
	s := sides[0]
	s.Turns = nil // the gpuprof of an older commit may lack --blocks-on-stdin
	return s, err
}
