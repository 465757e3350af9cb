package baseline

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// local is the folder of baselines inside a project.
const local = "baselines"

// Dir returns the folder of baselines: the requested one, else ./baselines if it exists, else the user's data
// folder. getenv is os.Getenv. ErrUsage for a user without a home and thus without a data folder.
func Dir(asked string, getenv func(string) string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	if info, err := os.Stat(local); err == nil && info.IsDir() {
		return local, nil
	}
	dir, variable := dataDir(getenv, runtime.GOOS)
	if dir == "" {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the baselines of this user: %s is not an absolute path", variable).WithFix("give a folder with --dir, or set %s", variable)
	}
	return filepath.Join(dir, "gpuprof", local), nil
}

// dataDir returns the user's data folder by the XDG base directory specification and the conventions of macOS and
// Windows. variable is the environment variable that the folder depends on; dir is empty if the variable holds no
// absolute path.
func dataDir(getenv func(string) string, system string) (dir, variable string) {
	under := func(variable string, parts ...string) (string, string) {
		home := getenv(variable)
		if system == runtime.GOOS && !filepath.IsAbs(home) || home == "" {
			return "", variable
		}
		return filepath.Join(append([]string{home}, parts...)...), variable
	}
	switch system {
	case "windows":
		if dir, variable = under("LOCALAPPDATA"); dir != "" {
			return dir, variable
		}
		return under("USERPROFILE", "AppData", "Local")
	case "darwin":
		return under("HOME", "Library", "Application Support")
	}
	// The specification ignores a relative path in the variable.
	if d := getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return d, "XDG_DATA_HOME"
	}
	return under("HOME", ".local", "share")
}

// Store is a folder of baselines, safe for concurrent processes: readers see whole files, a lock orders changes.
type Store struct {
	dir  string
	lock locker
	// between, if set, is a hook for tests. It runs after a file was read and before it is replaced.
	between func()
}

// Open returns the store in a folder, which need not exist yet.
func Open(dir string) *Store { return &Store{dir: dir, lock: lockFolder} }

// Path returns the store's folder.
func (s *Store) Path() string { return s.dir }

func (s *Store) file(name string) string {
	return filepath.Join(s.dir, filepath.FromSlash(name)+".json")
}

func (s *Store) load(name string) (*Baseline, error) {
	b, err := Read(s.file(name))
	if err != nil {
		return nil, err
	}
	b.Name = name
	return b, nil
}

// Read reads one baseline by its path, in a store or not. ErrUsage for a missing file, ErrInput for an unusable one.
func Read(file string) (*Baseline, error) {
	text, err := outside.ReadFound(file)
	if _, large := errors.AsType[*outside.TooLarge](err); large || outside.Damaged(err) {
		return nil, gpuprof.Unreadable("reading baseline "+file, err, "write it again with gpuprof history baseline add")
	}
	if err != nil {
		return nil, wrapError("reading", file, err)
	}
	return Parse(text, file)
}

// Parse decodes a baseline from memory; file is its path.
func Parse(text []byte, file string) (*Baseline, error) {
	b, err := decode(text, file)
	if err != nil {
		return nil, err
	}
	b.Name, b.Path = strings.TrimSuffix(filepath.Base(file), ".json"), file
	return b, nil
}

func wrapError(doing, file string, err error) error {
	const choose = "choose a folder with --dir"
	return gpuprof.Unwritable(doing+" baseline "+file, err, choose, choose)
}

// List reads every baseline of the store, by name; broken has an error for each unreadable file.
func (s *Store) List() (all []*Baseline, broken []error) {
	folder := outside.Dir(s.dir)
	err := fs.WalkDir(folder, ".", func(rel string, d fs.DirEntry, err error) error {
		file := folder.Path(rel)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && file == s.dir {
				return nil // nothing was added yet
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // another process removed the folder
			}
			broken = append(broken, wrapError("reading", file, err))
			return nil
		}
		if d.IsDir() || filepath.Ext(file) != ".json" || strings.Count(rel, "/") != 1 {
			return nil
		}
		b, err := s.load(strings.TrimSuffix(rel, ".json"))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && d.Type()&fs.ModeSymlink == 0 {
				return nil // another process removed the file; a dangling link is an error
			}
			broken = append(broken, err)
			return nil
		}
		all = append(all, b)
		return nil
	})
	if err != nil {
		broken = append(broken, wrapError("reading", s.dir, err))
	}
	slices.SortFunc(all, func(a, b *Baseline) int { return cmp.Compare(a.Name, b.Name) })
	return all, broken
}

// Show returns a baseline by its name in List, without the folder if the name is unique. ErrUsage without a match.
func (s *Store) Show(name string) (*Baseline, error) {
	want := strings.TrimSuffix(filepath.ToSlash(name), ".json")
	all, broken := s.List()
	var names []string
	var hits []*Baseline
	for _, b := range all {
		if b.Name == want {
			return b, nil
		}
		names = append(names, b.Name)
		if path.Base(b.Name) == want {
			hits = append(hits, b)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %d devices have it", name, len(hits)).WithFix("give %s", joinNames(hits))
	}
	for _, err := range broken {
		if strings.Contains(err.Error(), string(filepath.Separator)+filepath.FromSlash(want)+".json:") { // matches with or without the folder
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %s holds none", name, s.dir).WithFix("add one with gpuprof history baseline add RUN.json")
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %s has no such one%s", name, s.dir, gpuprof.DidYouMean(name, names)).WithFix("gpuprof history baseline list names them")
}

func joinNames(bs []*Baseline) string {
	var out []string
	for _, b := range bs {
		out = append(out, b.Name)
	}
	return strings.Join(out, " or ")
}

// Remove deletes a baseline, even an unreadable one, and its folder if the folder becomes empty. It returns the
// file's path. ErrUsage without a match.
func (s *Store) Remove(name string) (string, error) {
	want := strings.TrimSuffix(filepath.ToSlash(name), ".json")
	if _, err := os.Stat(s.dir); err != nil {
		_, err = s.Show(name) // the store has no folder yet, so there is nothing to lock
		return "", err
	}
	var file string
	err := s.holdLock(func() (err error) {
		file, err = s.removeFile(name, want)
		return err
	})
	return file, err
}

func (s *Store) removeFile(name, want string) (string, error) {
	file := s.file(want)
	_, err := os.Lstat(file)
	if err != nil || !filepath.IsLocal(filepath.FromSlash(want)) || path.Clean(want) != want || strings.Count(want, "/") != 1 {
		b, err := s.Show(name)
		if err != nil {
			return "", err
		}
		file = b.Path
	}
	if err := os.Remove(file); err != nil {
		return "", wrapError("removing", file, err)
	}
	if entries, err := outside.Dir(filepath.Dir(file)).ReadDir("."); err == nil && len(entries) == 0 {
		_ = os.Remove(filepath.Dir(file)) // an empty folder does no harm
	}
	return file, nil
}

// ErrNone is part of the error of Find if no baseline matches.
var ErrNone = errors.New("no baseline fits")

// Find returns the baseline of a fingerprint. Without one it returns ErrUsage and ErrNone, with the differences of
// the most similar baseline.
func (s *Store) Find(f Fingerprint) (*Baseline, error) {
	all, broken := s.List()
	var nearest *Baseline
	least := 0
	for _, b := range all {
		d := b.Fingerprint.listDifferences(f)
		if len(d) == 0 {
			return b, nil
		}
		if b.Fingerprint.Workload == f.Workload && (nearest == nil || len(d) < least) {
			nearest, least = b, len(d)
		}
	}
	// The baseline of this fingerprint may be in an unreadable file.
	for _, err := range broken {
		if strings.Contains(err.Error(), string(filepath.Separator)+f.fileStem()) {
			return nil, err
		}
	}
	where := s.dir + " holds none"
	if nearest != nil {
		where = "the nearest, " + nearest.Name + ", differs: " + strings.Join(nearest.Fingerprint.listDifferences(f), ", ")
	} else if len(all) > 0 {
		where = s.dir + " holds none of this workload"
	}
	return nil, gpuprof.Errorf(errors.Join(gpuprof.ErrUsage, ErrNone), "looking for a baseline of %s: %s", f, where).WithFix("add one with gpuprof history baseline add RUN.json")
}
