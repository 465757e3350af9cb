package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// Scratch is a folder for what a run needs while it lives. A run that is killed
// cannot remove its own: the next one does.
type Scratch struct {
	Dir  string
	lock *os.File
	note owner
}

// owner is what the lock file of a scratch folder says. Its lock is held for as long
// as the run lives: the system lets go of it, and of no other's.
type owner struct {
	Pid   int      `json:"pid"`
	Start uint64   `json:"start"` // of the process, clock ticks after the machine's start
	Trees []string `json:"trees"` // pairs of a repository and a checkout of it
}

const (
	scratchPrefix = "gpuprof-"
	ownerFile     = ".owner"
)

// NewScratch makes a folder gpuprof-KIND-… in the temporary folder, after it has
// removed what killed runs left there: their folders, checkouts and processes.
func NewScratch(ctx context.Context, kind string) (*Scratch, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	Sweep(ctx, os.TempDir())
	dir, err := os.MkdirTemp("", scratchPrefix+kind+"-")
	if err != nil {
		return nil, err
	}
	s := &Scratch{Dir: dir, note: owner{Pid: os.Getpid(), Start: startOf(os.Getpid())}}
	// Locked before it has its name: a sweep never sees one that is not.
	if s.lock, err = os.OpenFile(filepath.Join(dir, ownerFile+".new"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		err = errors.Join(lock(s.lock), s.save())
	}
	if err == nil {
		err = os.Rename(s.lock.Name(), filepath.Join(dir, ownerFile))
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return s, nil
}

func (s *Scratch) save() error {
	text, err := json.Marshal(s.note)
	if err != nil {
		return err
	}
	_, err = s.lock.WriteAt(append(text, '\n'), 0) // it only grows
	return err
}

// Lock takes the lock of a file that is open, for as long as it is open, or fails at once
// where another process has it.
func Lock(f *os.File) error { return lock(f) }

// Tree notes that the repository gets a checkout at dir, before it is made.
func (s *Scratch) Tree(repository, dir string) error {
	s.note.Trees = append(s.note.Trees, repository, dir)
	return s.save()
}

// Close removes the checkouts and the folder.
func (s *Scratch) Close() {
	s.note.clear()
	_ = os.RemoveAll(s.Dir) // a leftover in the temporary folder harms nobody
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// clear has git forget the checkouts; not to be interrupted.
func (o *owner) clear() {
	for i := 0; i+1 < len(o.Trees); i += 2 {
		// What cannot be removed, git worktree prune removes later.
		_, _, _ = Command{Args: []string{"git", "worktree", "remove", "--force", "--force", o.Trees[i+1]}, Dir: o.Trees[i]}.Run(context.Background())
	}
}

// Sweep removes what killed runs of this user left in the folder.
func Sweep(ctx context.Context, temp string) {
	found, _ := filepath.Glob(filepath.Join(temp, scratchPrefix+"*", ownerFile)) // the pattern is good
	for _, file := range found {
		if ctx.Err() != nil {
			return
		}
		if ownFolder(filepath.Dir(file)) {
			sweepOne(file)
		}
	}
}

// ownFolder says that nobody else can have written what a folder says.
func ownFolder(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	return isOwn(info)
}

func sweepOne(file string) {
	f, err := outside.OpenRegular(file, os.O_RDWR|noSurprise, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if lock(f) != nil {
		return // it lives
	}
	dir := filepath.Dir(file)
	var o owner
	if json.NewDecoder(f).Decode(&o) == nil && o.Pid > 0 {
		if o.Start > 0 {
			for range 20 { // what they start meanwhile is found in the next round
				pids := alive(markOf(o.Pid, o.Start), 0)
				if len(pids) == 0 {
					break
				}
				for _, pid := range pids {
					_ = kill(pid, syscall.SIGKILL)
				}
			}
		}
		o.Trees = within(dir, o.Trees)
		o.clear()
	}
	_ = os.RemoveAll(dir)
}

// within keeps the checkouts that are in a folder.
func within(dir string, trees []string) []string {
	var out []string
	for i := 0; i+1 < len(trees); i += 2 {
		if strings.HasPrefix(filepath.Clean(trees[i+1]), dir+string(filepath.Separator)) {
			out = append(out, trees[i], trees[i+1])
		}
	}
	return out
}
