package bisect

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// searchState is the stored state of a search: its document, and how to measure further commits.
type searchState struct {
	bisect.Search
	Again recipe `json:"-"`
	// Kept is the field Again as JSON. It is stored as bytes, because decoding a document replaces control characters
	// in its strings, and the command must run exactly as typed.
	Kept []byte `json:"again"`
}

// recipe has the command and flags for building and running a commit. Secrets in the command are not masked, because
// the command runs again; only the user can read the state file.
type recipe struct {
	Command  []string   `json:"command,omitempty"`
	Workload string     `json:"workload,omitempty"` // a workload of gpuprof
	Prefix   string     `json:"prefix"`             // folder of the checkout to build and run in
	Prints   bool       `json:"prints"`             // the command prints a result; otherwise its steps are recorded
	Whole    bool       `json:"whole,omitempty"`    // the command is timed as a whole
	How      buildFlags `json:"how"`
}

// stateFile stores the state of the search in a file. The lock allows one search per file at a time.
type stateFile struct {
	path string
	lock *os.File
}

// openKeeper locks the state file, except for --show. The error is ErrUsage if another process has locked it.
func (c *Cmd) openKeeper(repo *repository) (*stateFile, error) {
	k := &stateFile{path: c.State}
	if k.path == "" {
		k.path = filepath.Join(repo.git, "gpuprof-bisect.json")
	}
	if c.Show {
		return k, nil
	}
	var err error
	if k.lock, err = outside.OpenRegular(k.path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, k.cannotWrite(err)
	}
	if err := child.Lock(k.lock); err != nil {
		_ = k.lock.Close()
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "taking the search in %s: another gpuprof bisect is at work in this repository", k.path).WithFix("wait for its end, or give this one a --state FILE of its own")
	}
	if err := k.refuseUnfinished(c); err != nil {
		return nil, err
	}
	return k, nil
}

// refuseUnfinished refuses to begin a search if the stored one has not ended.
func (k *stateFile) refuseUnfinished(c *Cmd) error {
	if c.Resume {
		return nil
	}
	state, err := k.load()
	switch {
	case err == nil && state.Outcome == nil:
		err = gpuprof.Errorf(gpuprof.ErrUsage, "beginning a search: that of %s has not ended and is kept in %s", state.Range, k.path).WithFix("go on with gpuprof bisect --resume, or remove the file")
	case errors.Is(err, gpuprof.ErrInput):
		err = gpuprof.Errorf(gpuprof.ErrUsage, "beginning a search: %s is no search of gpuprof's", k.path).WithFix("give another --state, or remove the file")
	default:
		return nil
	}
	k.close()
	return err
}

func (k *stateFile) close() {
	if k.lock != nil {
		_ = k.lock.Close()
	}
}

func (k *stateFile) cannotWrite(err error) error {
	return gpuprof.Unwritable("keeping the search in "+k.path, err, "give --state a file that can be written", "free space and go on with gpuprof bisect --resume")
}

// load reads the state file; ErrUsage if there is none.
func (k *stateFile) load() (*searchState, error) {
	text, err := outside.ReadFound(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the search that is kept: there is none in %s", k.path).WithFix("begin one with gpuprof bisect GOOD..BAD -- CMD; a search is kept from the comparison of GOOD and BAD on")
	}
	if err != nil {
		return nil, outside.Failed("reading the search "+k.path, err, "give the file with --state", "remove it and begin again")
	}
	s := &searchState{}
	if err := document.Decode(text, k.path, s, document.Bisect); err != nil {
		return nil, err
	}
	if err := s.Validate(k.path); err != nil {
		return nil, err
	}
	return s, nil
}

// save replaces the state atomically.
func (k *stateFile) save(s *searchState) error {
	kept, err := json.Marshal(s.Again)
	s.Kept = kept
	text, err2 := json.MarshalIndent(s, "", " ")
	if err := errors.Join(err, err2); err != nil {
		return gpuprof.Errorf(nil, "keeping the search in %s: %w", k.path, err).WithFix("this is a fault in gpuprof, please report it")
	}
	if err := (atomicfile.Options{Flush: (*os.File).Sync}).Write(k.path, append(text, '\n')); err != nil {
		return k.cannotWrite(err)
	}
	return nil
}

// checkKept refuses to continue a search with another range, workload, command or machine.
func (c *Cmd) checkKept(run judge.Children, state *searchState) error {
	refuse := func(what, kept, given string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "going on with the search that is kept: its %s is %s, and not %s", what, kept, given).WithFix("leave that out, or begin a search with another --state FILE")
	}
	machine, _ := (&judge.Builds{}).Runner(run.App)
	words := document.MaskCommand(run.App.Rest)
	workload := ""
	if len(c.Args) > 1 {
		workload = c.Args[1]
	}
	switch {
	case len(c.Args) > 0 && c.Args[0] != state.Range:
		return refuse("range", state.Range, c.Args[0])
	case workload != "" && workload != state.Again.Workload:
		return refuse("workload", cmp.Or(state.Again.Workload, "unknown"), workload)
	case len(words) > 0 && !slices.Equal(words, state.Command):
		return refuse("command", strings.Join(state.Command, " "), strings.Join(words, " "))
	case machine != state.Machine:
		return refuse("machine", state.Machine, machine)
	case len(state.Again.Command) == 0 && state.Again.Workload == "":
		return gpuprof.Errorf(gpuprof.ErrInput, "going on with the search that is kept: it names no command").WithFix("begin it again")
	}
	return nil
}
