package rules_test

import (
	"context"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// summarise indexes traces and summarises them.
func summarise(ctx context.Context, inputs []*model.Trace, o analyze.Options) (*analyze.Analysis, error) {
	indexes := make([]*analyze.Index, len(inputs))
	for i, t := range inputs {
		x, err := analyze.NewIndex(ctx, t)
		if err != nil {
			return nil, err
		}
		indexes[i] = x
	}
	return analyze.SummariseIndexes(ctx, indexes, o)
}
