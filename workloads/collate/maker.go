package collate

import (
	"runtime/debug"
	"time"

	"github.com/gpuprof/gpuprof"
)

// maker turns a batch's number into the batch. Every worker has its own, and
// so has the caller when there are no workers.
type maker struct {
	r       *recipe
	sampler *sampler
	samples []sample
	lists   naiveLists
	item    int       // being worked on, for errors
	hook    func(int) // tests: called with every item before it is drawn
	began   time.Time // of the phase in progress
}

func newMaker(r *recipe) (*maker, error) {
	s, err := newSampler(r)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	return &maker{r: r, sampler: s, samples: make([]sample, r.Batch)}, nil
}

// make does both phases; what fails is the batch's error.
func (m *maker) make(sl *slot) {
	sl.cost = batchCost{}
	if sl.err = m.sample(sl); sl.err == nil {
		sl.err = m.collate(sl)
	}
}

// sample draws the samples of batch sl.index.
func (m *maker) sample(sl *slot) (err error) {
	m.began = time.Now()
	defer m.guard(sl.index, &err)
	direct, room := m.direct(), m.r.room()
	for i := range m.samples {
		m.item = m.r.item(sl.index, i)
		if m.hook != nil {
			m.hook(m.item)
		}
		out := &m.samples[i]
		switch {
		case direct:
			out.aim(sl)
		case !m.r.Reuse:
			*out = sample{}
		}
		if err := m.sampler.draw(m.item, out, room); err != nil {
			return m.failed(sl.index, err)
		}
		n := out.sizes()
		room -= edgeWords * (n[uEdge] + n[uReach])
	}
	sl.cost.Sample = int64(time.Since(m.began))
	return nil
}

// direct says that a sample is drawn right into the batch: the short cut of
// implementations whose samples are arrays.
func (m *maker) direct() bool {
	return m.r.Short && m.r.Batch == 1 && m.r.Impl != implNaive
}

// collate assembles the samples drawn last.
func (m *maker) collate(sl *slot) (err error) {
	m.began = time.Now()
	defer m.guard(sl.index, &err)
	rows, stride := layout(m.samples, m.r.Padded)
	if room := m.r.room(); edgeWords*(rows[uEdge]+rows[uReach]) > room { // padding
		return m.failed(sl.index, errTooLarge(room))
	}
	sl.ready(rows)
	if m.r.Impl == implNaive {
		for i := range m.samples {
			m.lists.box(i, &m.samples[i], m.r.Reuse)
		}
		m.lists.assemble(&sl.batch, m.samples, stride, m.r)
	} else {
		assemble(&sl.batch, m.samples, stride, m.r.Padded)
	}
	sl.cost.Collate = int64(time.Since(m.began))
	return nil
}

// guard turns a panic into the batch's error.
func (m *maker) guard(index int, err *error) {
	if p := recover(); p != nil {
		*err = gpuprof.Errorf(gpuprof.ErrInput, "collating batch %d: sample %d (%s) made the worker panic: %v", index, m.item, m.r.name(m.item), p).WithFix("report this with the structure\n%s", debug.Stack())
	}
}

func (m *maker) failed(index int, err error) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "collating batch %d: sample %d (%s): %w", index, m.item, m.r.name(m.item), err)
}
