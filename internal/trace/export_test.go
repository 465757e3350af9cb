package trace

import (
	"context"

	"github.com/gpuprof/gpuprof/internal/trace/period"
)

// LaunchPeriod is the period of the launches of a trace, whatever marks its steps, and when the
// host called each.
func (x *Index) LaunchPeriod() (f *period.Found, at []int64) {
	o := x.launchOrder()
	for _, l := range o.all {
		at = append(at, l.At)
	}
	return period.Find(o.all), at
}

// Summarise indexes traces and summarises them.
func Summarise(ctx context.Context, inputs []*Trace, o Options) (*Analysis, error) {
	indexes := make([]*Index, len(inputs))
	for i, t := range inputs {
		x, err := NewIndex(ctx, t)
		if err != nil {
			return nil, err
		}
		indexes[i] = x
	}
	return SummariseIndexes(ctx, indexes, o)
}
