package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// packHead is the first line of a pack. The texts of its sessions follow, one per line, in the order of Names.
type packHead struct {
	gpuprof.Head
	Month string   `json:"month"` // yyyy-mm
	Names []string `json:"names"` // objects that the pack contains
}

func isPack(name string) bool {
	return len(strings.Split(name, "/")) == 7 && strings.HasPrefix(name, root+"/") &&
		strings.HasPrefix(path.Base(name), packWord) && strings.HasSuffix(name, objectExt)
}

const (
	// packAge is the least age of a month to pack: no job adds to it any more.
	packAge = 60 * 24 * time.Hour
	// packText limits the text of a pack, bytes, since a pack is read whole.
	packText = 24 << 20
)

// readPack returns the names and texts of a pack's sessions. It returns an error if a text does not have the hash in
// its name.
func (s *Store) readPack(ctx context.Context, name string) (names []string, texts [][]byte, err error) {
	text, err := s.readText(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	damaged := func(format string, args ...any) error {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading "+name+": "+format, args...).WithFix("remove it, and pack its month again")
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var head packHead
	if err := document.Decode(first, name, &head, document.Pack); err != nil {
		return nil, nil, err
	}
	texts = bytes.Split(bytes.TrimSuffix(rest, []byte("\n")), []byte("\n"))
	if len(texts) != len(head.Names) {
		return nil, nil, damaged("it names %d sessions and holds %d", len(head.Names), len(texts))
	}
	for i, n := range head.Names {
		if r, ok := parseRef(n); !ok || shortHash(texts[i]) != r.hash {
			return nil, nil, damaged("the session %d in it is not the one that is named", i+1)
		}
	}
	return head.Names, texts, nil
}

// Packed describes a pack that was written.
type Packed struct {
	Name     string
	Sessions int
}

// Pack writes packs, one per month and series, of the sessions in months that ended more than 60 days before now. It
// skips packed sessions, and removes nothing.
func (s *Store) Pack(ctx context.Context, f Filter, now time.Time) ([]Packed, []Skipped, error) {
	caches := s.newCaches()
	in, err := s.list(ctx, f, caches)
	if err != nil {
		return nil, nil, err
	}
	months := map[string][]sessionRef{}
	for _, r := range in.refs {
		if r.pack == "" && now.Sub(monthEnd(r.at)) > packAge {
			months[path.Dir(r.name)] = append(months[path.Dir(r.name)], r)
		}
	}
	var out []Packed
	var errs []error
	for _, folder := range slices.Sorted(maps.Keys(months)) {
		written, skipped, err := s.packMonth(ctx, folder, months[folder])
		out, in.skipped = append(out, written...), append(in.skipped, skipped...)
		errs = append(errs, err)
	}
	return out, in.skipped, errors.Join(errs...)
}

// packMonth writes the packs of one folder.
func (s *Store) packMonth(ctx context.Context, folder string, refs []sessionRef) (out []Packed, skipped []Skipped, err error) {
	var names []string
	var texts [][]byte
	size := 0
	write := func() error {
		if len(names) == 0 {
			return nil
		}
		name, err := s.writePack(ctx, folder, names, texts)
		if err == nil {
			out = append(out, Packed{name, len(names)})
		}
		names, texts, size = nil, nil, 0
		return err
	}
	for _, r := range refs {
		text, err := s.readSession(ctx, r.name)
		if err != nil {
			skipped = append(skipped, Skipped{r.name, reasonText(err)})
			continue
		}
		if size+len(text) > packText {
			if err := write(); err != nil {
				return out, skipped, err
			}
		}
		names, texts, size = append(names, r.name), append(texts, text), size+len(text)
	}
	return out, skipped, write()
}

// readSession reads a session's own object and checks the hash in its name.
func (s *Store) readSession(ctx context.Context, name string) ([]byte, error) {
	text, err := s.readText(ctx, name)
	if err != nil {
		return nil, err
	}
	if r, ok := parseRef(name); !ok || shortHash(text) != r.hash {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: its content differs from the bytes written", name).WithFix("add its result again")
	}
	return text, nil
}

// writePack writes one pack and reads it back.
func (s *Store) writePack(ctx context.Context, folder string, names []string, texts [][]byte) (string, error) {
	parts := strings.Split(folder, "/")
	head := packHead{Head: document.NewHead(document.Pack, gpuprof.Tool{Name: "gpuprof"}), Month: strings.Join(parts[len(parts)-2:], "-"), Names: names}
	first, err := json.Marshal(head)
	if err != nil {
		return "", fmt.Errorf("encoding a pack: %w", err)
	}
	text := bytes.Join(slices.Concat([][]byte{first}, texts), []byte("\n"))
	content, err := s.compress(append(text, '\n'))
	if err != nil {
		return "", err
	}
	name := path.Join(folder, packWord+head.Month+"-"+shortHash(text)+objectExt)
	if err := s.bucket.Put(ctx, name, content); err != nil {
		return "", err
	}
	if held, _, err := s.readPack(ctx, name); err != nil || !slices.Equal(held, names) {
		return "", gpuprof.Errorf(gpuprof.ErrInput, "reading the pack %s back: %w", name, errors.Join(err, errPack)).WithFix("pack again")
	}
	return name, nil
}

var errPack = errors.New("it does not hold the bytes written")
