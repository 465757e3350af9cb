package serving

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

const (
	mostWitnessed = 16
	// The same images in another order: with int8 the scale of the activations is the largest
	// value of the whole batch and the sums are integers, so that each answer is the same but
	// for the rounding of its last layers in float32.
	witnessed = 1e-5
)

// witness keeps some batches with their answers while the service runs. Each runs again in reverse order after the
// service has ended: an image must get its earlier answer at another place of the batch. This detects swapped requests
// where an answer depends on its batch by more than images differ (int8).
type witness struct {
	kept             []servedBatch
	n, count, stride int
}

// servedBatch is a batch and its answers.
type servedBatch struct {
	ids     []int64
	answers []byte
}

func newWitness(maxBatch, answerBytes int) *witness {
	w := &witness{kept: make([]servedBatch, mostWitnessed), stride: 1}
	for i := range w.kept {
		w.kept[i] = servedBatch{make([]int64, 0, maxBatch), make([]byte, 0, maxBatch*answerBytes)}
	}
	return w
}

// observe may keep a batch. The kept batches are spread evenly over all observed ones. It allocates nothing.
func (w *witness) observe(ids []int64, answers []byte) {
	if len(ids) < 2 { // there is no other order
		return
	}
	if w.n == len(w.kept) && w.count%w.stride == 0 {
		for i := range w.n / 2 {
			w.kept[i], w.kept[2*i] = w.kept[2*i], w.kept[i]
		}
		w.n, w.stride = w.n/2, 2*w.stride
	}
	if w.count%w.stride == 0 {
		h := &w.kept[w.n]
		h.ids, h.answers = append(h.ids[:0], ids...), append(h.answers[:0], answers...)
		w.n++
	}
	w.count++
}

// replayBatches runs the kept batches again while no batch is in flight. wrong is the number of answers that differ.
func (s *session) replayBatches() (wrong int, err error) {
	w := s.witness
	if w == nil {
		return 0, nil
	}
	for i := range w.n {
		n, err := s.replayBatch(&w.kept[i])
		if err != nil {
			return wrong, fmt.Errorf("running a batch again to compare its answers: %w", err)
		}
		wrong += n
	}
	w.n, w.count, w.stride = 0, 0, 1
	return wrong, nil
}

func (s *session) replayBatch(h *servedBatch) (wrong int, err error) {
	l := &s.slots[0]
	l.ids = l.ids[:0]
	for i := len(h.ids) - 1; i >= 0; i-- {
		l.ids = append(l.ids, h.ids[i])
	}
	if err := s.run(l, 0, loop.Silent{}); err != nil {
		return 0, err
	}
	if err := l.end.Wait(); err != nil {
		return 0, err
	}
	n, out := s.net.answerBytes(), l.out.Bytes()
	for i := range h.ids {
		at := len(h.ids) - 1 - i
		if !near(h.answers[i*n:(i+1)*n], out[at*n:(at+1)*n]) {
			wrong++
		}
	}
	return wrong, s.releaseSlot(l)
}

// near reports whether two answers are equal within rounding. NaN is never near.
func near(a, b []byte) bool {
	var apart, length float64
	for k := 0; k < len(a); k += wordBytes {
		x := float64(math.Float32frombits(binary.NativeEndian.Uint32(a[k:])))
		y := float64(math.Float32frombits(binary.NativeEndian.Uint32(b[k:])))
		apart, length = apart+(x-y)*(x-y), length+x*x
	}
	return math.Sqrt(apart) <= witnessed*math.Sqrt(length)
}
