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

// witness keeps some batches with their answers while the service runs. Each runs again, in
// reverse, once the service stands still: an image must get the answer that it got before,
// from another place of the batch. That tells requests apart where an answer depends on
// its batch by more than images differ (int8).
type witness struct {
	kept             []heard
	n, count, stride int
}

// heard is a batch and its answers.
type heard struct {
	ids     []int64
	answers []byte
}

func newWitness(maxBatch, answerBytes int) *witness {
	w := &witness{kept: make([]heard, mostWitnessed), stride: 1}
	for i := range w.kept {
		w.kept[i] = heard{make([]int64, 0, maxBatch), make([]byte, 0, maxBatch*answerBytes)}
	}
	return w
}

// see may keep a batch. Those kept lie evenly over all that were seen. It allocates nothing.
func (w *witness) see(ids []int64, answers []byte) {
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

// replay runs what the witness kept again, while no batch is in flight. wrong is how many
// answers differ.
func (s *session) replay() (wrong int, err error) {
	w := s.witness
	if w == nil {
		return 0, nil
	}
	for i := range w.n {
		n, err := s.replayed(&w.kept[i])
		if err != nil {
			return wrong, fmt.Errorf("running a batch again to compare its answers: %w", err)
		}
		wrong += n
	}
	w.n, w.count, w.stride = 0, 0, 1
	return wrong, nil
}

func (s *session) replayed(h *heard) (wrong int, err error) {
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
	return wrong, s.release(l)
}

// near says that two answers are the same but for rounding. It says no to what is not a number.
func near(a, b []byte) bool {
	var apart, length float64
	for k := 0; k < len(a); k += wordBytes {
		x := float64(math.Float32frombits(binary.NativeEndian.Uint32(a[k:])))
		y := float64(math.Float32frombits(binary.NativeEndian.Uint32(b[k:])))
		apart, length = apart+(x-y)*(x-y), length+x*x
	}
	return math.Sqrt(apart) <= witnessed*math.Sqrt(length)
}
