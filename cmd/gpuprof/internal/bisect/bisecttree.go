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

// The checkouts of a search. Their names are equally long: how long a path is can
// change where a program lies in memory.
const (
	treeGood      = iota
	treeCandidate // moves from commit to commit
	treeParent    // of what is measured directly
	treeCount
)

// workTrees are the checkouts of a search and what is built in them.
type workTrees struct {
	run   judge.Children
	repo  *repository
	room  *child.Scratch
	again *recipe
	cache *artifacts        // nil without --artifact
	at    [treeCount]string // the commit that is built in each; "" where none is
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

func (t *workTrees) dir(tree int) string { return filepath.Join(t.room.Dir, "abc"[tree:tree+1]) }

// binary is where gpuprof itself is built to for a workload.
func (t *workTrees) binary(tree int) string {
	return filepath.Join(t.room.Dir, "gpuprof-"+"abc"[tree:tree+1])
}

// put checks a commit out into a tree and builds it, where it is not there yet. built
// says that it was, which took so long, and cached that the artifact was kept.
func (t *workTrees) put(tree int, commit bisect.Commit) (built, cached bool, took time.Duration, err error) {
	if t.at[tree] == commit.ID {
		return false, false, 0, nil
	}
	began := t.clock()
	t.at[tree] = ""
	place := t.place(tree)
	if err = t.checkOut(tree, commit.ID); err == nil {
		err = t.run.Link(place, t.again.How.Link)
	}
	if err == nil {
		cached, err = t.build(tree, commit.ID)
		err = t.run.WithLacking(commit.Short(), &place, err)
	}
	took = t.clock().Sub(began)
	if err == nil {
		t.at[tree] = commit.ID
	}
	return err == nil, cached, took, err
}

// checkOut moves a tree to a commit.
func (t *workTrees) checkOut(tree int, id string) error {
	dir := t.dir(tree)
	if !exists(dir) {
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

// clearSubmodules empties the submodules of a tree: another commit has others.
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

// build builds what a tree holds, or takes the artifact that was kept of the commit.
func (t *workTrees) build(tree int, id string) (cached bool, err error) {
	if _, err := os.Stat(t.folder(tree)); err != nil {
		return false, gpuprof.Errorf(gpuprof.ErrInput, "building %.7s: it has no folder %s, where the command would run", id, t.again.Prefix).WithFix("run bisect in a folder that all commits have")
	}
	how, dir := t.again.How, t.folder(tree)
	if t.cache != nil {
		if cached, err = t.cache.take(t.repo, id, dir); cached || err != nil {
			return cached, err
		}
	}
	if how.Build != "" {
		if err := t.run.Shell(dir, how.Build); err != nil {
			return false, err
		}
	}
	if t.again.Workload != "" {
		top := t.dir(tree)
		if err := t.run.Command(top, "go", "build", "-trimpath", "-buildvcs=false", "-o", t.binary(tree), "./cmd/gpuprof"); err != nil {
			return false, gpuprof.Errorf(gpuprof.ErrInput, "building gpuprof at %.7s: %w", id, err).WithFix("a workload needs gpuprof's own checkout, other programs go after --")
		}
	}
	if t.cache != nil {
		return false, t.cache.keep(t.repo, id, dir)
	}
	return false, nil
}

// folder is where a command runs and is built in a tree.
func (t *workTrees) folder(tree int) string {
	if t.again.Workload != "" {
		return t.dir(tree)
	}
	return filepath.Join(t.dir(tree), filepath.FromSlash(t.again.Prefix))
}

// place is where a tree lies beside the user's checkout.
func (t *workTrees) place(tree int) judge.Place {
	return judge.Place{Top: t.repo.top, Prefix: t.repo.prefix, Tree: t.dir(tree)}
}

// side is how to run what is built in a tree. The commit is how messages call it.
func (t *workTrees) side(tree int, commit bisect.Commit) (judge.Side, error) {
	if t.again.Workload == "" {
		c, place := judge.Builds{Result: t.again.How.Result}, t.place(tree)
		return judge.Side{Name: commit.Short(), Dir: t.folder(tree), Args: t.again.Command, File: c.ResultIn(t.folder(tree)), Made: &place}, nil
	}
	how := t.again.How
	c := judge.Builds{Args: []string{t.again.Workload}, Preset: how.Preset, Set: how.Set, Device: how.Device, MinTime: how.MinTime, Against: commit.Short()}
	scratch := filepath.Join(t.room.Dir, "run-"+"abc"[tree:tree+1])
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return judge.Side{}, gpuprof.Errorf(nil, "making a folder for a result: %w", err).WithFix("check TMPDIR")
	}
	sides, err := c.WorkloadSides(t.run.App, t.binary(tree), t.binary(tree), scratch)
	s := sides[0]
	s.Turns = nil // older commits cannot take turns
	return s, err
}
