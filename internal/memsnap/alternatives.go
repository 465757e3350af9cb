package memsnap

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
)

// Options configures an analysis.
type Options struct {
	// Settings are settings to try besides the standard ones, in the syntax of PYTORCH_CUDA_ALLOC_CONF.
	Settings []string
	// Allowed is the limit of reserved memory (set_per_process_memory_fraction), bytes; 0 if unknown, since no snapshot
	// contains it.
	Allowed int64
}

// Names of settings, and of changes to the program.
const (
	noEmptyCache   = "no torch.cuda.empty_cache()"
	emptyEachStep  = "torch.cuda.empty_cache() after each step"
	emptyEachTenth = "torch.cuda.empty_cache() after every 10th step"
	withoutPrefix  = "without "

	collectionName = "garbage_collection_threshold"
	expandableName = "expandable_segments"
	splitName      = "max_split_size_mb"
	roundName      = "roundup_power2_divisions"
	segmentName    = "large_segment_size_mb"
	nonSplitName   = "max_non_split_rounding_mb"
)

// alternative is an allocator setting, or a change to the program's empty_cache calls, to replay.
type alternative struct {
	name   string
	set    pool.Settings
	trims  map[int]bool // events before which empty_cache runs
	advice bool
}

// pages marks expandable segments in a setting; each replay replaces it by its own Pager.
type pages struct{ pool.Pager }

// alternatives returns the settings to replay: the file's own first, then others, with common values of
// max_split_size_mb.
func (r *Replay) alternatives(m *model, o Options) []alternative {
	own, _ := r.S.Settings.poolSettings(pages{})
	own.Order, own.Allowed = m.order, o.Allowed
	out := []alternative{{"as recorded", own, m.trims, false}}
	try := func(name string, change func(*pool.Settings)) {
		s := own
		if change(&s); s != own {
			out = append(out, alternative{name, s, m.trims, true})
		}
	}
	try(expandableName+":True", func(s *pool.Settings) { s.Pages = pages{} })
	try(expandableName+":False", func(s *pool.Settings) { s.Pages = nil })
	for _, mb := range []int64{32, 128, 512} {
		try(fmt.Sprintf("%s:%d", splitName, mb), func(s *pool.Settings) { s.MaxSplit = mb << 20 })
	}
	try(withoutPrefix+splitName, func(s *pool.Settings) { s.MaxSplit = 0 })
	for _, d := range []uint64{4, 8} {
		try(fmt.Sprintf("%s:%d", roundName, d), func(s *pool.Settings) { s.Roundup = uniformDivisions(d) })
	}
	try(withoutPrefix+roundName, func(s *pool.Settings) { s.Roundup = [16]uint64{} })
	if o.Allowed > 0 {
		for _, part := range []float64{0.6, 0.8} {
			try(fmt.Sprintf("%s:%g", collectionName, part), func(s *pool.Settings) { s.Collect = part })
		}
		try(withoutPrefix+collectionName, func(s *pool.Settings) { s.Collect = 0 })
	}
	for _, text := range o.Settings {
		change, _ := parseSettings(text) // checked by Analyze
		try(text, change)
	}
	if len(m.trims) > 0 {
		out = append(out, alternative{noEmptyCache, own, nil, false})
	}
	for _, c := range []struct {
		name  string
		every int
	}{{emptyEachStep, 1}, {emptyEachTenth, 10}} {
		if len(r.phases) >= 2*c.every {
			out = append(out, alternative{c.name, own, r.addEmptyCalls(m.trims, c.every), false})
		}
	}
	return out
}

func uniformDivisions(n uint64) (d [16]uint64) {
	for i := range d {
		d[i] = n
	}
	return d
}

// addEmptyCalls returns a copy of trims, the events before which empty_cache runs, plus the last event of every n-th
// step (n is every).
func (r *Replay) addEmptyCalls(trims map[int]bool, every int) map[int]bool {
	out := maps.Clone(trims)
	for i, p := range r.phases {
		if (i+1)%every == 0 {
			out[int(p.Last)] = true
		}
	}
	return out
}

// parseSettings parses settings in the syntax of PYTORCH_CUDA_ALLOC_CONF.
func parseSettings(text string) (change func(*pool.Settings), err error) {
	var all []func(*pool.Settings)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		one, ok := parseSettingPart(strings.TrimSpace(name), strings.TrimSpace(value))
		if !ok {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --what-if %s: %q is no setting that is replayed", text, part).WithFix("give %s:True, %s:64, %s:4, %s:0.8 (beside --memory-limit), %s:20 or %s:20, several with commas", expandableName, splitName, roundName, collectionName, segmentName, nonSplitName)
		}
		all = append(all, one)
	}
	return func(s *pool.Settings) {
		for _, one := range all {
			one(s)
		}
	}, nil
}

// mostMegabytes limits sizes in settings, MiB; no device has so much memory.
const mostMegabytes = 1 << 24

func parseSettingPart(name, value string) (change func(*pool.Settings), ok bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	whole := err == nil && n > 0 && n <= mostMegabytes
	switch name {
	case expandableName:
		switch value {
		case "True":
			return func(s *pool.Settings) { s.Pages = pages{} }, true
		case "False":
			return func(s *pool.Settings) { s.Pages = nil }, true
		}
	case splitName:
		return func(s *pool.Settings) { s.MaxSplit = n << 20 }, whole && n > 20 // PyTorch rejects less
	case segmentName:
		return func(s *pool.Settings) { s.Medium = n << 20 }, whole && n >= 20 && n%2 == 0
	case nonSplitName:
		return func(s *pool.Settings) { s.MaxRounding = n << 20 }, whole && n >= 20
	case roundName:
		return func(s *pool.Settings) { s.Roundup = uniformDivisions(uint64(n)) }, whole && n&(n-1) == 0
	case collectionName:
		part, err := strconv.ParseFloat(value, 64)
		return func(s *pool.Settings) { s.Collect = part }, err == nil && part > 0 && part < 1
	}
	return nil, false
}
