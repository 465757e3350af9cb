package baseline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// local is the folder of baselines that a project keeps with its source.
const local = "baselines"

// Dir is where baselines are: the folder asked for, else ./baselines when it
// is there, else the user's data folder. getenv is os.Getenv.
func Dir(asked string, getenv func(string) string) string {
	if asked != "" {
		return asked
	}
	if info, err := os.Stat(local); err == nil && info.IsDir() {
		return local
	}
	return filepath.Join(dataDir(getenv, runtime.GOOS), "gpuprof", local)
}

// dataDir is where programs of a user keep their data: the XDG base directory
// specification, and the customs of macOS and Windows.
func dataDir(getenv func(string) string, system string) string {
	home := getenv("HOME")
	switch system {
	case "windows":
		return cmp.Or(getenv("LOCALAPPDATA"), filepath.Join(getenv("USERPROFILE"), "AppData", "Local"))
	case "darwin":
		return filepath.Join(home, "Library", "Application Support")
	}
	// A relative path in the variable is to be ignored.
	if d := getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(home, ".local", "share")
}

// Store is a folder of baselines.
type Store struct{ dir string }

// Open is the store in a folder, which need not be there yet.
func Open(dir string) *Store { return &Store{dir: dir} }

// Path is the store's folder.
func (s *Store) Path() string { return s.dir }

// Provenance is where sessions come from.
type Provenance struct {
	Now     time.Time
	Machine string // as its owner calls it
	Command string // what measured
	Tool    gpuprof.Tool
}

// Added says what became of one run.
type Added struct {
	Name     string // of the baseline
	Path     string
	Sessions int // in it now
	Dropped  int // pruned
}

// Add puts runs into the baselines that fit them, each a session, and keeps
// the latest keep sessions of every file (0 is DefaultKeep). A run that must
// not become a baseline (partial, invalid, simulated) is ErrInput, and then
// nothing is written. Runs of too few processes are taken, with a warning, and
// so are those that differ from the other sessions in what must agree.
func (s *Store) Add(runs []*gpuprof.Run, p Provenance, keep int) ([]Added, []gpuprof.Warning, error) {
	if keep < 0 {
		return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "adding to the baselines: %d sessions cannot be kept; give 1 or more", keep)
	}
	if keep == 0 {
		keep = DefaultKeep
	}
	if len(runs) == 0 {
		return nil, nil, gpuprof.Errorf(gpuprof.ErrInput, "adding to the baselines: there is no run; give a file written by gpuprof run")
	}
	files, err := s.plan(runs, p, keep)
	if err != nil {
		return nil, nil, err
	}
	var out []Added
	warnings := fewProcesses(runs)
	for _, f := range files {
		f.file.Tool = p.Tool
		if err := s.write(f); err != nil {
			return out, nil, err
		}
		warnings = append(warnings, f.file.mixed()...)
		out = append(out, Added{f.file.Name, f.file.Path, len(f.file.Sessions), f.before + f.added - len(f.file.Sessions)})
	}
	return out, warnings, nil
}

func fewProcesses(runs []*gpuprof.Run) []gpuprof.Warning {
	var out []gpuprof.Warning
	for _, r := range runs {
		if n := processes(r.Step); n < compare.MinRuns {
			out = append(out, gpuprof.Warning{
				Code: "few-processes",
				Text: fmt.Sprintf("the run of %s has %d processes; a verdict needs %d, because the samples of one process are not independent", FingerprintOf(r), n, compare.MinRuns),
				Fix:  fmt.Sprintf("measure with --runs %d", compare.MinRuns),
			})
		}
	}
	return out
}

// mixed warns of sessions that differ in what a gate wants to agree. They share a
// file on purpose, since a driver is updated and a knob's default changes; but as
// long as both are in it there is no verdict, whatever is judged.
func (b *Baseline) mixed() []gpuprof.Warning {
	values := map[string]string{}
	var differ []string
	note := func(field, value string) {
		if old, ok := values[field]; ok && old != value && !slices.Contains(differ, field) {
			differ = append(differ, field)
		}
		values[field] = value
	}
	for i := range b.Sessions {
		for k, v := range b.Sessions[i].Env {
			note(k, v)
		}
		for k, v := range b.Sessions[i].Knobs {
			note(k, v.Value)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return []gpuprof.Warning{{
		Code: "mixed-sessions",
		Text: fmt.Sprintf("the sessions of %s differ in %s, and no gate against them gives a verdict", b.Name, strings.Join(differ, ", ")),
		Fix:  "keep what differs in a folder of its own (--dir), or remove the baseline with gpuprof baseline rm and add what belongs together",
	}}
}

// change is a file as it is to be written.
type change struct {
	file          *Baseline
	before, added int
	was           fs.FileInfo // nil for a new file
}

// plan makes every change in memory first, so that a run that is refused
// leaves nothing half done.
func (s *Store) plan(runs []*gpuprof.Run, p Provenance, keep int) ([]*change, error) {
	var out []*change
	for _, r := range runs {
		if r == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "adding to the baselines: there is no run; give a file written by gpuprof run")
		}
		session, err := newSession(r, p)
		if err != nil {
			return nil, err
		}
		f := FingerprintOf(r)
		i := slices.IndexFunc(out, func(c *change) bool { return c.file.Fingerprint.Equal(f) })
		if i < 0 {
			c, err := s.open(f, out)
			if err != nil {
				return nil, err
			}
			i, out = len(out), append(out, c)
		}
		if err := out[i].file.add(session, keep); err != nil {
			return nil, err
		}
		out[i].added++
	}
	return out, nil
}

// open is the file of a fingerprint, or a new one under a name that is free.
func (s *Store) open(f Fingerprint, planned []*change) (*change, error) {
	taken := func(name string) bool {
		return slices.ContainsFunc(planned, func(c *change) bool { return c.file.Name == name })
	}
	plain := path.Join(slug(f.Device), f.stem())
	for _, name := range []string{plain, plain + "-" + f.hash()} {
		if taken(name) {
			continue
		}
		file := s.file(name)
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return &change{file: &Baseline{Version: SchemaVersion, Kind: kind, Fingerprint: f, Name: name, Path: file}}, nil
		}
		if err != nil {
			return nil, cannot("reading", file, err)
		}
		b, err := s.load(name)
		if err != nil {
			return nil, err
		}
		if b.Fingerprint.Equal(f) {
			return &change{file: b, before: len(b.Sessions), was: info}, nil
		}
	}
	return nil, gpuprof.Errorf(gpuprof.ErrInput, "adding %s to the baselines: %s holds another fingerprint under that name; remove it with gpuprof baseline rm", f, s.file(plain+"-"+f.hash()))
}

func (s *Store) file(name string) string {
	return filepath.Join(s.dir, filepath.FromSlash(name)+".json")
}

// maxFile bounds what is read: a file of twenty sessions has less than a
// megabyte.
const maxFile = 256 << 20

func (s *Store) load(name string) (*Baseline, error) {
	b, err := Read(s.file(name))
	if err != nil {
		return nil, err
	}
	b.Name = name
	return b, nil
}

// Read reads one baseline by its path, in a store or not. A file that is not
// there is ErrUsage, one that cannot be used ErrInput.
func Read(file string) (*Baseline, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxFile {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading baseline %s: it has %d bytes, more than gpuprof writes; remove it", file, info.Size())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cannot("reading", file, err)
	}
	b, err := decode(text, file)
	if err != nil {
		return nil, err
	}
	b.Name, b.Path = strings.TrimSuffix(filepath.Base(file), ".json"), file
	return b, nil
}

func cannot(doing, file string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s baseline %s: %w; choose a folder with --dir", doing, file, err)
}

// List reads every baseline of the store, by name. Files that cannot be read
// are in broken, and do not hide the others.
func (s *Store) List() (all []*Baseline, broken []error) {
	err := filepath.WalkDir(s.dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && file == s.dir {
				return nil // nothing was added yet
			}
			broken = append(broken, cannot("reading", file, err))
			return nil
		}
		rel, relErr := filepath.Rel(s.dir, file)
		if relErr != nil || d.IsDir() || filepath.Ext(file) != ".json" || strings.Count(filepath.ToSlash(rel), "/") != 1 {
			return nil
		}
		b, err := s.load(strings.TrimSuffix(filepath.ToSlash(rel), ".json"))
		if err != nil {
			broken = append(broken, err)
			return nil
		}
		all = append(all, b)
		return nil
	})
	if err != nil {
		broken = append(broken, cannot("reading", s.dir, err))
	}
	slices.SortFunc(all, func(a, b *Baseline) int { return cmp.Compare(a.Name, b.Name) })
	return all, broken
}

// Show is the baseline of a name: as List gives it, or without its folder
// where only one device has it. ErrUsage when there is none.
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
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %d devices have it; give %s", name, len(hits), either(hits))
	}
	for _, err := range broken {
		if strings.Contains(err.Error(), s.file(want)+":") {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %s holds none; add one with gpuprof baseline add RUN.json", name, s.dir)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for baseline %s: %s has no such one%s; gpuprof baseline list names them", name, s.dir, gpuprof.DidYouMean(name, names))
}

func either(bs []*Baseline) string {
	var out []string
	for _, b := range bs {
		out = append(out, b.Name)
	}
	return strings.Join(out, " or ")
}

// Remove deletes a baseline, also one that cannot be read, and its folder when
// it was the last one in it. It returns the file. ErrUsage when there is none.
func (s *Store) Remove(name string) (string, error) {
	want := strings.TrimSuffix(filepath.ToSlash(name), ".json")
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
		return "", cannot("removing", file, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err == nil && len(entries) == 0 {
		_ = os.Remove(filepath.Dir(file)) // an empty folder does no harm
	}
	return file, nil
}

// Find is the baseline for a fingerprint. ErrUsage when there is none, naming
// what the nearest one differs in.
func (s *Store) Find(f Fingerprint) (*Baseline, error) {
	all, broken := s.List()
	var nearest *Baseline
	least := 0
	for _, b := range all {
		d := b.Fingerprint.differences(f)
		if len(d) == 0 {
			return b, nil
		}
		if b.Fingerprint.Workload == f.Workload && (nearest == nil || len(d) < least) {
			nearest, least = b, len(d)
		}
	}
	// A file that cannot be read may be the one.
	for _, err := range broken {
		if strings.Contains(err.Error(), string(filepath.Separator)+f.stem()) {
			return nil, err
		}
	}
	where := s.dir + " holds none"
	if nearest != nil {
		where = "the nearest, " + nearest.Name + ", differs: " + strings.Join(nearest.Fingerprint.differences(f), ", ")
	} else if len(all) > 0 {
		where = s.dir + " holds none of this workload"
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "looking for a baseline of %s: %s; add one with gpuprof baseline add RUN.json", f, where)
}
