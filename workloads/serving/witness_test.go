package serving

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// confused gives the request at place 1 of every batch the image of the one at place 0, which
// each batch that a service confuses does in some way.
type confused struct {
	network
	first int64
}

func (c *confused) writeRequest(dst []byte, id int64) {
	if id%4 == 1 && c.first >= 0 {
		id = c.first
	}
	c.first = id
	c.network.writeRequest(dst, id)
}

// With int8 each way to compute a batch answers an image alike in any order, padded or not, in
// steps and under load; one that confuses requests is found.
func TestConfusedRequests(t *testing.T) {
	for _, set := range [][]string{{}, {"layout=nchw", "impl=im2col", "bn=apart"}, {"preprocess=device", "impl=direct"}, {"pad=on", "graph=on", "max_batch=5"}} {
		set = append([]string{"max_batch=4", "precision=int8", "rate=400"}, set...)
		s := openOn(t, workloadtest.Host(t, host.Options{}), "small", set...)
		for i := range 40 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.drainSlots(); err != nil || s.witness.n == 0 {
			t.Fatalf("%v: %v, %d batches", set, err, s.witness.n)
		}
		if wrong, err := s.replayBatches(); wrong != 0 || err != nil || s.witness.n != 0 {
			t.Errorf("%v: %d wrong, %v", set, wrong, err)
		}
		if _, err := s.Serve(context.Background(), load()); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
	s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4", "precision=int8", "rate=400")
	s.net = &confused{s.net, -1}
	for i := range 4 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.drainSlots(); err != nil {
		t.Fatal(err)
	}
	s.wrong = 0 // what single answers tell: here some
	if wrong, err := s.replayBatches(); wrong == 0 || err != nil {
		t.Errorf("%d wrong, %v", wrong, err)
	}
	for i := range 4 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Serve(context.Background(), load()); !errors.Is(err, gpuprof.ErrCheck) {
		t.Errorf("%v", err)
	}
}

// Two answers of a batch that changed places are found, whichever batch it is.
func TestSwappedAnswers(t *testing.T) {
	s := openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4", "precision=int8")
	for i := range 12 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.drainSlots(); err != nil {
		t.Fatal(err)
	}
	for i := range s.witness.n {
		h := &s.witness.kept[i]
		h.ids[1], h.ids[2] = h.ids[2], h.ids[1]
	}
	if n := s.witness.n; n == 0 {
		t.Fatal("nothing was kept")
	} else if wrong, err := s.replayBatches(); wrong != 2*n || err != nil {
		t.Errorf("%d wrong of %d batches, %v", wrong, n, err)
	}
	if openOn(t, workloadtest.Host(t, host.Options{}), "small", "max_batch=4").witness != nil {
		t.Error("in float32 each answer tells by itself")
	}
}

// What is kept lies evenly over all that was seen.
func TestWitnessKeepsEvenly(t *testing.T) {
	w := newWitness(4, 4)
	for i := range 1000 {
		w.observe([]int64{int64(i), 0}, make([]byte, 8))
		w.observe([]int64{int64(i)}, make([]byte, 4)) // has no order
	}
	var got []int64
	for _, h := range w.kept[:w.n] {
		got = append(got, h.ids[0])
	}
	if want := []int64{0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
