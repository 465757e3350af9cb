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

// Scratch is a temporary folder of a run. If the run is killed, a later run removes the folder.
type Scratch struct {
	Dir  string
	note cleanupNote
}

// cleanupNote lists what to remove together with a scratch folder.
type cleanupNote struct {
	Trees []string `json:"trees,omitempty"` // pairs of a repository and a checkout of it
	Files []string `json:"files,omitempty"` // files elsewhere, each followed by the folders that it leaves empty
	// Program is the user's program. It and its children survive a killed gpuprof, and use the folder.
	Program *owner.Process `json:"program,omitempty"`
	// Mark is NAME=VALUE in the environment of the program and its children.
	Mark string `json:"mark,omitempty"`
}

const (
	scratchPrefix = "gpuprof-"
	// The name is not .owner: earlier versions lock a file named .owner, and treat a folder without that lock as
	// abandoned.
	noteFile = "left.json"
)

// NewScratch creates a folder gpuprof-KIND-… in the temporary folder.
func NewScratch(kind string) (*Scratch, error) {
	dir, err := owner.MkdirTemp(os.TempDir(), scratchPrefix+kind)
	if err != nil {
		return nil, err
	}
	return &Scratch{Dir: dir}, nil
}

func (s *Scratch) saveNote() error {
	text, err := json.Marshal(s.note)
	if err != nil {
		return err
	}
	return atomicfile.Options{}.Write(filepath.Join(s.Dir, noteFile), text)
}

// Lock locks an open file until it is closed. It fails at once if another process has the lock.
func Lock(f *os.File) error { return lock(f) }

// Tree records that dir is a checkout of the repository. Call it before the checkout.
func (s *Scratch) Tree(repository, dir string) error {
	s.note.Trees = append(s.note.Trees, repository, dir)
	return s.saveNote()
}

// Outlives records that a program, with mark in its environment, uses the folder and the given files elsewhere. The
// program survives a killed gpuprof; these files are removed only after it has ended.
func (s *Scratch) Outlives(mark string, files ...string) error {
	s.note.Mark, s.note.Files = mark, append(s.note.Files, files...)
	return s.saveNote()
}

// Program records the process ID of the program that Outlives describes.
func (s *Scratch) Program(pid int) error {
	s.note.Program = &owner.Process{Pid: pid, Start: owner.StartOf(pid)}
	return s.saveNote()
}

// Close removes the checkouts and the folder. If a program still uses them, a later Sweep removes them.
func (s *Scratch) Close() {
	if s.note.isUsed() {
		return
	}
	s.note.removeAll()
	_ = os.RemoveAll(s.Dir) // a leftover in the temporary folder is harmless
}

// isUsed reports whether the user's program or one of its children runs.
func (n *cleanupNote) isUsed() bool {
	return n.Mark != "" && (n.Program != nil && n.Program.Alive() || hasSetting(n.Mark))
}

// removeAll removes the checkouts from their repositories, and the files. It must not be interrupted.
func (n *cleanupNote) removeAll() {
	for i := 0; i+1 < len(n.Trees); i += 2 {
		// git worktree prune later removes what remains.
		_, _, _ = Git(n.Trees[i], "worktree", "remove", "--force", "--force", n.Trees[i+1]).Run(context.Background())
	}
	for _, file := range n.Files {
		_ = os.Remove(file) // only empty folders are removed
	}
}

// Sweep removes what this user's killed runs left in the temporary folder: folders, checkouts and processes.
func Sweep(ctx context.Context, temp string) {
	entries, _ := outside.Dir(temp).ReadDir(".") // unreadable folders stay
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if dir := filepath.Join(temp, e.Name()); strings.HasPrefix(e.Name(), scratchPrefix) && owner.Left(dir) && isPrivate(dir) {
			by, _ := owner.Of(e.Name())
			sweepOne(dir, by)
		}
	}
}

// isPrivate reports whether only this user can write to a folder.
func isPrivate(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o022 == 0
}

// sweepOne removes the folder of an ended process.
func sweepOne(dir string, by owner.Process) {
	var n cleanupNote
	if text, err := outside.ReadFound(filepath.Join(dir, noteFile)); err == nil && json.Unmarshal(text, &n) != nil {
		n = cleanupNote{} // the file is not gpuprof's
	}
	if n.isUsed() {
		return
	}
	if by.Start > 0 {
		for range 20 { // the next round finds processes started meanwhile
			pids := liveProcesses(markOf(by.Pid, by.Start), 0, by.Start)
			if len(pids) == 0 {
				break
			}
			for _, pid := range pids {
				_ = kill(pid, syscall.SIGKILL)
			}
		}
	}
	n.Trees = treesBelow(dir, n.Trees)
	n.removeAll()
	_ = os.RemoveAll(dir)
}

func treesBelow(dir string, trees []string) []string {
	var out []string
	for i := 0; i+1 < len(trees); i += 2 {
		if strings.HasPrefix(filepath.Clean(trees[i+1]), dir+string(filepath.Separator)) {
			out = append(out, trees[i], trees[i+1])
		}
	}
	return out
}
