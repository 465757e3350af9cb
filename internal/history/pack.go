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

// packHead is the first line of a pack; the texts of its sessions follow, a line each,
// in the order of the names.
type packHead struct {
	gpuprof.Head
	Month string   `json:"month"` // yyyy-mm
	Names []string `json:"names"` // of the objects that it stands for
}

func isPack(name string) bool {
	return len(strings.Split(name, "/")) == 7 && strings.HasPrefix(name, root+"/") &&
		strings.HasPrefix(path.Base(name), packWord) && strings.HasSuffix(name, objectExt)
}

const (
	// packAge is how old a month is before it is packed: then no job adds to it.
	packAge = 60 * 24 * time.Hour
	// packText is how long the text of a pack may become, bytes: one is read whole.
	packText = 24 << 20
)

// readPack gives the names of a pack's sessions and their texts, or what is wrong with
// it: every text must have the hash of its name.
func (s *Store) readPack(ctx context.Context, name string) (names []string, texts [][]byte, err error) {
	text, err := s.text(ctx, name)
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
		if r, ok := refOf(n); !ok || hashOf(texts[i]) != r.hash {
			return nil, nil, damaged("the session %d in it is not the one that is named", i+1)
		}
	}
	return head.Names, texts, nil
}

// Packed is a pack that was written.
type Packed struct {
	Name     string
	Sessions int
}

// Pack writes the sessions of every month that ended more than 60 days before now into
// packs, one a month and series, except those that a pack holds already. It removes
// nothing.
func (s *Store) Pack(ctx context.Context, f Filter, now time.Time) ([]Packed, []Skipped, error) {
	caches := s.newCaches()
	in, err := s.list(ctx, f, caches)
	if err != nil {
		return nil, nil, err
	}
	months := map[string][]ref{}
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
func (s *Store) packMonth(ctx context.Context, folder string, refs []ref) (out []Packed, skipped []Skipped, err error) {
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
		text, err := s.session(ctx, r.name)
		if err != nil {
			skipped = append(skipped, Skipped{r.name, why(err)})
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

// session is the text of a session's own object, which has the hash of its name.
func (s *Store) session(ctx context.Context, name string) ([]byte, error) {
	text, err := s.text(ctx, name)
	if err != nil {
		return nil, err
	}
	if r, ok := refOf(name); !ok || hashOf(text) != r.hash {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: its content is not what was written", name).WithFix("add its result again")
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
	name := path.Join(folder, packWord+head.Month+"-"+hashOf(text)+objectExt)
	if err := s.bucket.Put(ctx, name, content); err != nil {
		return "", err
	}
	if held, _, err := s.readPack(ctx, name); err != nil || !slices.Equal(held, names) {
		return "", gpuprof.Errorf(gpuprof.ErrInput, "reading the pack %s back: %w", name, errors.Join(err, errPack)).WithFix("pack again")
	}
	return name, nil
}

var errPack = errors.New("it does not hold what was written")
