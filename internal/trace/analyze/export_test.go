package analyze

import (
	"context"
	"fmt"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/analyze/period"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// LaunchPeriod is the period of the launches of a trace, whatever marks its steps, and when the
// host called each.
func (x *Index) LaunchPeriod() (f *period.Found, at []int64) {
	o := x.listLaunches()
	for _, l := range o.all {
		at = append(at, l.At)
	}
	return period.Find(o.all), at
}

// Summarise indexes traces and summarises them.
func Summarise(ctx context.Context, inputs []*model.Trace, o Options) (*Analysis, error) {
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

// RandomTrace draws a trace of any shape.
func RandomTrace(r *rapid.T) *model.Trace { return randomTrace(r) }

// NoDevice is a trace of three steps of the CPU alone.
func NoDevice() *model.Trace {
	b := newBuilder()
	for i := range int64(3) {
		b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), i*1000, i*1000+990)
		b.host(model.Annotation, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", i*1000+10, i*1000+410)
		b.host(model.Op, "aten::mm", i*1000+500, i*1000+800)
	}
	return b.finish()
}
