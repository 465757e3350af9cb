package resnet

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Tuned is the result of a search for the fastest way of each convolution.
type Tuned struct {
	Ways  map[string]string // by convolution; Options.Ways
	Tried int               // ways timed, of all convolutions
}

// Tune times the ways to compute each convolution of the network, with batches of MaxBatch, and names the fastest,
// like cuDNN's benchmark mode in a PyTorch program. One network of each way is open at a time, so it takes no more
// memory than im2col's. The stream must be idle.
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
	for _, way := range try { // before anything is allocated
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

// ownWays returns the ways of the own kernels.
func ownWays() []string { return []string{Implicit, Im2col, Direct} }

// timeWays times every convolution of a network that computes all of them in one way.
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

// shortestTime returns the least time of a group in three passes, after one to warm up. A pass that takes four times
// the best of the other ways is not repeated: a direct convolution of a large network takes seconds on the host
// device.
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
		if ns/4 > best { // the first pass of a kernel too
			return ns, nil
		}
	}
	return least, nil
}
