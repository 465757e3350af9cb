package resnet

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Tuned holds the fastest implementation of each convolution.
type Tuned struct {
	Ways  map[string]string // by convolution, for Options.Ways
	Tried int               // implementations timed, over all convolutions
}

// Tune times every implementation of each convolution with batches of MaxBatch and returns the fastest, like cuDNN's
// benchmark mode in PyTorch. It opens one network at a time, so it takes no more memory than im2col. The stream must
// be idle.
func Tune(ctx context.Context, d device.Device, s device.Stream, o Options) (Tuned, error) {
	t := Tuned{Ways: map[string]string{}}
	if l, ok := d.(librarian); ok && o.Library != "off" {
		l.Libraries()
	}
	o.Slots = 1
	try := ownWays()
	if o.offersCuDNN(d.Info()) {
		try = append(try, CuDNN)
	}
	for _, way := range try { // refuse before anything is allocated
		o.Impl, o.Ways = way, nil
		if err := errors.Join(o.Refuse(d.Info()), o.withDefaults().checkMemory(d)); err != nil {
			return t, fmt.Errorf("tuning the convolutions: %w", err)
		}
	}
	from, err := d.NewEvent()
	if err != nil {
		return t, err
	}
	to, err := d.NewEvent()
	if err != nil {
		return t, err
	}
	least := map[string]int64{}
	for _, way := range try {
		o.Impl, o.Ways = way, nil
		n, err := Open(ctx, d, s, o)
		if err != nil {
			return t, fmt.Errorf("tuning the convolutions: %w", err)
		}
		err = n.timeWays(ctx, s, [2]device.Event{from, to}, least, &t)
		if err = errors.Join(err, n.Close()); err != nil {
			return t, fmt.Errorf("tuning the convolutions: %w", err)
		}
	}
	return t, nil
}

func ownWays() []string { return []string{Implicit, Im2col, Direct} }

// timeWays times every convolution of n, which uses one implementation for all of them. It stores in least and t each
// time that is shorter than the convolution's times so far.
func (n *Net) timeWays(ctx context.Context, s device.Stream, between [2]device.Event, least map[string]int64, t *Tuned) error {
	for g := range n.groups {
		if n.groups[g].Kind != Conv {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name := n.groups[g].Name
		best, known := least[name]
		if !known {
			best = math.MaxInt64
		}
		ns, err := n.shortestTime(s, g, between, best)
		if err != nil {
			return err
		}
		if t.Tried++; ns < best {
			least[name], t.Ways[name] = ns, n.o.Impl
		}
	}
	return s.Sync()
}

// shortestTime returns a group's shortest time in ns over three passes after a warm-up pass. best is the time of the
// fastest other implementation. The function stops after a pass that takes more than four times best, because a direct
// convolution of a large network takes seconds on the host device.
func (n *Net) shortestTime(s device.Stream, group int, between [2]device.Event, best int64) (int64, error) {
	least := int64(math.MaxInt64)
	for pass := range 4 {
		if err := errors.Join(s.Record(between[0]), n.Enqueue(s, 0, group, n.o.MaxBatch), s.Record(between[1]), s.Sync()); err != nil {
			return 0, err
		}
		ns, err := n.dev.ElapsedNS(between[0], between[1])
		if err != nil {
			return 0, err
		}
		if pass > 0 {
			least = min(least, ns)
		}
		if ns/4 > best { // also applies to the warm-up pass
			return ns, nil
		}
	}
	return least, nil
}
