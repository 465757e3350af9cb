package trace

import "context"

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
