package memsnap

import (
	"cmp"
	"path"
	"slices"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// mostChanges limits the lines of a comparison.
const mostChanges = 100

// Against adds the changes at the peak since the analysis old. Lines match by function and file, so that moved code
// matches.
func (a *Analysis) Against(old *Analysis) {
	before, after := &old.Devices[0], &a.Devices[0]
	b := &Before{Inputs: old.Inputs, Peak: before.Peak.Requested, PeakReserved: before.PeakReserved, Changes: []Change{}}
	at := map[[2]string]int{}
	place := func(s SiteBytes) *Change {
		k := [2]string{s.Category, stripLine(s.Where)}
		i, ok := at[k]
		if !ok {
			i = len(b.Changes)
			at[k] = i
			b.Changes = append(b.Changes, Change{Where: s.Where, Category: s.Category})
		}
		return &b.Changes[i]
	}
	for _, s := range before.Peak.Sites {
		place(s).Before += s.Bytes
	}
	for _, s := range after.Peak.Sites {
		c := place(s)
		c.After += s.Bytes
		c.Where = s.Where
	}
	b.Changes = slices.DeleteFunc(b.Changes, func(c Change) bool { return c.Before == c.After })
	slices.SortStableFunc(b.Changes, func(x, y Change) int { return cmp.Compare(absBytes(y.After-y.Before), absBytes(x.After-x.Before)) })
	b.Changes = b.Changes[:min(len(b.Changes), mostChanges)]
	a.Before = b
}

func absBytes(n int64) int64 { return max(n, -n) }

var lineFrame = lazyregexp.New(`^(.*):[0-9]+ in (.*)$`)

// stripLine reduces a site to file name and function, so that moved lines match.
func stripLine(where string) string {
	if m := lineFrame.FindStringSubmatch(where); len(m) == 3 && m[2] != "<module>" {
		return path.Base(m[1]) + " " + m[2]
	}
	return where
}
