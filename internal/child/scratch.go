package child

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// Scratch is a folder for what a run needs while it lives. A run that is killed
// cannot remove its own: the next one does.
type Scratch struct {
	Dir  string
	note note
}

// note is what a scratch folder holds of what has to be removed with it.
type note struct {
	Trees []string `json:"trees,omitempty"` // pairs of a repository and a checkout of it
	Files []string `json:"files,omitempty"` // elsewhere, and then the folders that are empty without them
	// Program is the user's program, which lives on where gpuprof is killed and uses what is in
	// the folder: so do its children.
	Program *owner.Process `json:"program,omitempty"`
	// Mark is in the environment of the program and of those that it starts: NAME=VALUE.
	Mark string `json:"mark,omitempty"`
}

const (
	scratchPrefix = "gpuprof-"
	// Not .owner: releases that lock a file of that name take a folder without the lock for left.
	noteFile = "left.json"
)

// NewScratch makes a folder gpuprof-KIND-… in the temporary folder.
func NewScratch(kind string) (*Scratch, error) {
	dir, err := owner.MkdirTemp(os.TempDir(), scratchPrefix+kind)
	if err != nil {
		return nil, err
	}
	return &Scratch{Dir: dir}, nil
}

func (s *Scratch) save() error {
	text, err := json.Marshal(s.note)
	if err != nil {
		return err
	}
	return atomicfile.Options{}.Write(filepath.Join(s.Dir, noteFile), text)
}

// Lock takes the lock of a file that is open, for as long as it is open, or fails at once
// where another process has it.
func Lock(f *os.File) error { return lock(f) }

// Tree notes that the repository gets a checkout at dir, before it is made.
func (s *Scratch) Tree(repository, dir string) error {
	s.note.Trees = append(s.note.Trees, repository, dir)
	return s.save()
}

// Outlives notes that the user's program, which has mark in its environment, is to use the folder,
// and that files elsewhere go with it. A killed gpuprof does not end that program: what it uses stays until it has ended.
func (s *Scratch) Outlives(mark string, files ...string) error {
	s.note.Mark, s.note.Files = mark, append(s.note.Files, files...)
	return s.save()
}

// Program notes the process of the program of Outlives.
func (s *Scratch) Program(pid int) error {
	s.note.Program = &owner.Process{Pid: pid, Start: owner.StartOf(pid)}
	return s.save()
}

// Close removes the checkouts and the folder; what a program still uses, the next sweep removes.
func (s *Scratch) Close() {
	if s.note.used() {
		return
	}
	s.note.clear()
	_ = os.RemoveAll(s.Dir) // a leftover in the temporary folder harms nobody
}

// used reports whether the user's program runs, or one that it started.
func (n *note) used() bool {
	return n.Mark != "" && (n.Program != nil && n.Program.Alive() || inEnvironment(n.Mark))
}

// clear has git forget the checkouts and removes the files; not to be interrupted.
func (n *note) clear() {
	for i := 0; i+1 < len(n.Trees); i += 2 {
		// What cannot be removed, git worktree prune removes later.
		_, _, _ = Git(n.Trees[i], "worktree", "remove", "--force", "--force", n.Trees[i+1]).Run(context.Background())
	}
	for _, file := range n.Files {
		_ = os.Remove(file) // of a folder only an empty one
	}
}

// Sweep removes what killed runs of this user left in the temporary folder: their folders,
// checkouts and processes.
func Sweep(ctx context.Context, temp string) {
	entries, _ := outside.Dir(temp).ReadDir(".") // what cannot be read stays
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if dir := filepath.Join(temp, e.Name()); strings.HasPrefix(e.Name(), scratchPrefix) && owner.Left(dir) && ownFolder(dir) {
			by, _ := owner.Of(e.Name())
			sweepOne(dir, by)
		}
	}
}

// ownFolder says that nobody else can have written what a folder says.
func ownFolder(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o022 == 0
}

// sweepOne removes the folder of a process that is gone.
func sweepOne(dir string, by owner.Process) {
	var n note
	if text, err := outside.ReadFound(filepath.Join(dir, noteFile)); err == nil && json.Unmarshal(text, &n) != nil {
		n = note{} // it is none of gpuprof's
	}
	if n.used() {
		return
	}
	if by.Start > 0 {
		for range 20 { // what they start meanwhile is found in the next round
			pids := alive(markOf(by.Pid, by.Start), 0)
			if len(pids) == 0 {
				break
			}
			for _, pid := range pids {
				_ = kill(pid, syscall.SIGKILL)
			}
		}
	}
	n.Trees = within(dir, n.Trees)
	n.clear()
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
