package collate

import (
	"runtime/debug"
	"time"

	"github.com/gpuprof/gpuprof"
)

// maker makes a batch from its number. Every worker has its own maker; without workers the caller has one.
type maker struct {
	r       *recipe
	sampler *sampler
	samples []sample
	lists   naiveLists
	item    int       // current sample, for errors
	hook    func(int) // for tests: called with every item before it is drawn
	began   time.Time // start of the current phase
}

func newMaker(r *recipe) (*maker, error) {
	s, err := newSampler(r)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "%w", err)
	}
	return &maker{r: r, sampler: s, samples: make([]sample, r.Batch)}, nil
}

func (m *maker) makeBatch(sl *slot) {
	sl.cost = batchCost{}
	if sl.err = m.drawSamples(sl); sl.err == nil {
		sl.err = m.collate(sl)
	}
}

func (m *maker) drawSamples(sl *slot) (err error) {
	m.began = time.Now()
	defer m.guard(sl.index, &err)
	direct, room := m.isDirect(), m.r.wordLimit()
	for i := range m.samples {
		m.item = m.r.itemAt(sl.index, i)
		if m.hook != nil {
			m.hook(m.item)
		}
		out := &m.samples[i]
		switch {
		case direct:
			out.aimAt(sl)
		case !m.r.Reuse:
			*out = sample{}
		}
		if err := m.sampler.drawItem(m.item, out, room); err != nil {
			return m.failedBatch(sl.index, err)
		}
		n := out.unitSizes()
		room -= edgeWords * (n[uEdge] + n[uReach])
	}
	sl.cost.Sample = int64(time.Since(m.began))
	return nil
}

// isDirect reports whether a sample is drawn directly into the batch, which needs samples made of arrays.
func (m *maker) isDirect() bool {
	return m.r.Short && m.r.Batch == 1 && m.r.Impl != implNaive
}

// collate assembles the samples that were drawn last.
func (m *maker) collate(sl *slot) (err error) {
	m.began = time.Now()
	defer m.guard(sl.index, &err)
	rows, stride := layoutOf(m.samples, m.r.Padded)
	if room := m.r.wordLimit(); edgeWords*(rows[uEdge]+rows[uReach]) > room { // padding may exceed the limit
		return m.failedBatch(sl.index, errTooLarge(room))
	}
	sl.prepare(rows)
	if m.r.Impl == implNaive {
		for i := range m.samples {
			m.lists.boxSample(i, &m.samples[i], m.r.Reuse)
		}
		m.lists.assemble(&sl.batch, m.samples, stride, m.r)
	} else {
		assemble(&sl.batch, m.samples, stride, m.r.Padded)
	}
	sl.cost.Collate = int64(time.Since(m.began))
	return nil
}

func (m *maker) guard(index int, err *error) {
	if p := recover(); p != nil {
		*err = gpuprof.Errorf(gpuprof.ErrInput, "collating batch %d: sample %d (%s) made the worker panic: %v", index, m.item, m.r.nameOf(m.item), p).WithFix("report this with the structure\n%s", debug.Stack())
	}
}

func (m *maker) failedBatch(index int, err error) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "collating batch %d: sample %d (%s): %w", index, m.item, m.r.nameOf(m.item), err)
}
