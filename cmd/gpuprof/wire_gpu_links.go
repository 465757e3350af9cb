package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
)

// linkTries is the number of copies that measure a link in each direction.
const linkTries = 5

// Between measures the copy rate between each two of the GPUs, and an all-reduce over all of them. here has the GPUs'
// positions in Shown. bytes is the size of each copy and of the all-reduced array. No other code may have the GPUs
// open. With fewer than two GPUs it returns nil.
func (s *gpuList) Between(ctx context.Context, here []int, bytes int) (links []health.Link, sum *health.AllReduce) {
	if len(here) < 2 {
		return nil, nil
	}
	var names []string
	var faults []error
	var open []*cuda.Device
	defer func() {
		for _, d := range open {
			if d != nil {
				_ = d.Close() // everything is measured, and the figures have the device's errors
			}
		}
	}()
	for _, i := range here {
		index := s.visible[i].Index
		d, err := s.w.openGPU(index)
		names, faults, open = append(names, fmt.Sprintf("cuda:%d", index)), append(faults, err), append(open, d)
	}
	links = health.Links(names, func(from, to int) (bool, float64, error) {
		if err := errors.Join(faults[from], faults[to]); err != nil {
			return false, 0, err
		}
		l, err := cuda.MeasurePeer(ctx, open[from], open[to], bytes, linkTries)
		return l.Direct, l.BytesPerS, err
	})
	sum = &health.AllReduce{GPUs: len(here), Bytes: bytes, TookS: gpuprof.Number(math.NaN()), BusPerS: gpuprof.Number(math.NaN())}
	r, err := cuda.AllReduce{}, errors.Join(faults...)
	if err == nil {
		r, err = cuda.MeasureAllReduce(ctx, open, bytes, linkTries)
	}
	if err != nil {
		sum.Why = cli.Sentence(err)
		return links, sum
	}
	sum.Library, sum.TookS, sum.BusPerS = r.Library, gpuprof.Number(r.TookS), gpuprof.Number(r.BusPerS)
	return links, sum
}
