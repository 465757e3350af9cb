package e3nn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const (
	// fp32Tolerance is the tolerance of a float32 layer against float64.
	fp32Tolerance = 1e-5
	// sampledRows is the number of rows that are checked where all rows would take over a second.
	sampledRows = 64
	// referenceRate is the speed of the reference on one core, in flops per second as counted for the float32 kernels. It
	// only decides between all rows and a sample.
	referenceRate = 3e8
)

// tolerances maps the precision of a layer's MLP to the layer's largest error.
var tolerances = map[string]float64{op.FP32: fp32Tolerance, op.TF32: 2e-3, op.TF32x3: fp32Tolerance, op.BF16: 2e-2, op.FP16: 5e-3}

// Check implements workloads.Session. In the first of the two slots (steps in flight) it checks all rows if the
// reference is expected to take less than a second, otherwise a sample. In the other slot it always checks a sample.
// Then it checks whole steps.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	whole := op.ReferenceSeconds(s.Stages(), referenceRate) < 1
	out, err := op.EachSlot(depth, func(k int) ([]gpuprof.Check, error) {
		if s.k.Trains() { // every slot starts from the parameters of the reference
			if err := s.train.step.Checked(s.Compute); err != nil {
				return nil, err
			}
		}
		c := &checker{s: s, ctx: ctx, slot: k, batch: k % len(s.in.batches), Checker: op.Checker{Mem: &s.mem, Stream: s.Compute, Errs: make([]op.ErrorNorm, stageCount)}}
		err := c.run(rng, k == 0 && whole)
		return c.stageChecks(), err
	})
	if err == nil {
		var whole []gpuprof.Check
		whole, err = s.wholeSteps(ctx)
		out = append(out, whole...)
	}
	if err == nil && s.k.Trains() {
		err = s.restartParameters()
	}
	return out, cmp.Or(err, ctx.Err())
}

// checker runs one batch on the device stage by stage. It fills each output with NaN before, and compares sampled rows
// after.
type checker struct {
	op.Checker
	s     *session
	ctx   context.Context
	slot  int
	batch int
	micro int
	rows  []int
	edges int
	refs  []rowReference // reference of each checked row
	laws  [lawCount]op.ErrorNorm
	p     wide
	// before holds, for each checked row, the gradients of its edges before a stage that adds to them.
	before [][]float64
	saved  optim.Saved // parameters and gradients before a stage that changes them
	// added holds, by buffer, a layer's gradients before a stage that adds to them.
	added map[device.Buffer][]float64
}

func (c *checker) run(rng *rand.Rand, whole bool) error {
	first := c.batch
	for c.micro = range c.s.k.Micro() {
		c.batch = (first + c.micro) % len(c.s.in.batches)
		if err := c.runMicro(rng, whole); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) runMicro(rng *rand.Rand, whole bool) error {
	s := c.s
	sl := &s.slots[c.slot]
	if err := c.poisonAll(); err != nil {
		return err
	}
	c.edges = s.batches.collate(&sl.host, c.batch)
	rowptr := device.Ints(sl.host.rowptr)
	c.rows = c.pickRows(rng, rowptr, whole)
	if c.collateAndCopy(sl); c.Err != nil {
		return c.Err
	}
	if err := c.computeReference(sl); err != nil {
		return err
	}
	s.setEdges(c.slot, c.edges)
	if s.goesBack() {
		c.p = widen(s.params)
	}
	for i := range s.plan {
		if !s.plan[i].appliesTo(c.micro) {
			continue
		}
		if c.checkStage(&s.plan[i]); c.Err != nil {
			return fmt.Errorf("stage %s: %w", allStages()[s.plan[i].stage].Name, c.Err)
		}
	}
	if c.copyBack(sl); s.k.Graph {
		c.checkGraph()
	}
	return c.Err
}

// poisonAll fills every output of a step with NaN.
func (c *checker) poisonAll() error {
	s := c.s
	var bufs []device.Buffer
	for _, r := range s.requests(int64(s.edges)) {
		if b := *r.to[0]; b != s.back.drho || !s.computesForces() { // with forces, no step writes drho
			bufs = append(bufs, b)
		}
	}
	for i := range s.layers {
		bufs = append(bufs, s.outputOf(c.slot, i))
	}
	if err := op.Poison(s.dev, s.Compute, bufs...); err != nil {
		return err
	}
	op.PoisonHost(s.slots[c.slot].out, s.slots[c.slot].energy)
	return s.Compute.Sync()
}

// collateAndCopy compares the neighbour lists with a brute-force search, and the device's copy with the host's bytes.
func (c *checker) collateAndCopy(sl *slot) {
	s := c.s
	rowptr, src, vec := device.Ints(sl.host.rowptr), device.Ints(sl.host.src), device.Floats(sl.host.vec)
	points := s.in.batches[c.batch]
	for _, r := range c.rows {
		want := structure.BruteForce(s.in.crystal, s.in.finder.Cutoff(), s.in.point(points[r]), s.in.atoms)
		lo, hi := int(rowptr[r]), int(rowptr[r+1])
		n := hi - lo // the limit of edges per batch may cut the row
		if n > len(want.Src) || s.in.prefix == 0 && n != len(want.Src) || !slices.Equal(src[lo:hi], want.Src[:n]) {
			c.Errs[stCollate].Diff, c.Errs[stCollate].Used = math.Inf(1), true
			continue
		}
		c.Errs[stCollate].Add(vec[3*lo:3*hi], op.As[float64](want.Vec[:3*n]))
	}
	if c.Stops(s.send(sl, c.edges, loop.Silent{})) || c.Stops(s.Compute.Sync()) {
		return
	}
	if s.goesBack() {
		c.checkBySource(sl)
	}
	type copied struct {
		host, dev device.Buffer
		n         int
	}
	all := []copied{{sl.host.src, sl.dev.src, c.edges}, {sl.host.dst, sl.dev.dst, c.edges}, {sl.host.rowptr, sl.dev.rowptr, s.rows + 1}, {sl.host.vec, sl.dev.vec, 3 * c.edges}}
	if s.goesBack() {
		all = append(all, copied{sl.host.colptr, sl.dev.colptr, sl.host.colptr.Len() / 4}, copied{sl.host.perm, sl.dev.perm, c.edges})
	}
	for _, copied := range all {
		got := c.Read(copied.dev, 0, copied.n)
		// Compare the bits, because an index may have the bits of a NaN.
		c.Errs[stH2D].Same(got, device.Floats(copied.host)[:copied.n])
	}
}

func (c *checker) checkStage(so *stageOps) {
	s := c.s
	c.takeSnapshot(so)
	for _, b := range so.ops[c.slot] {
		if c.Stops(b.Enqueue(s.Compute)) {
			return
		}
	}
	if c.Stops(s.Compute.Sync()) || c.Stops(c.ctx.Err()) {
		return
	}
	rowptr := device.Ints(s.slots[c.slot].host.rowptr)
	for i, r := range c.rows {
		ref := &c.refs[i]
		lo := int(rowptr[r])
		switch so.stage {
		case stSph:
			w := (s.model.LMax + 1) * (s.model.LMax + 1)
			c.Compare(stSph, s.harmonics, lo*w, ref.y)
		case stRadial:
			c.checkRadial(so.layer, lo, &ref.layers[so.layer])
		case stProduct:
			if messages := so.ops[c.slot][0].Output(); messages != nil {
				c.Compare(stProduct, messages, lo*s.model.Layers[so.layer].TP.Out.Dim(), ref.layers[so.layer].messages)
			} else {
				c.Compare(stProduct, s.work[so.layer].mid, r*s.model.Layers[so.layer].TP.Out.Dim(), ref.layers[so.layer].mid)
			}
		case stScatter:
			c.Compare(stScatter, s.work[so.layer].mid, r*s.model.Layers[so.layer].TP.Out.Dim(), ref.layers[so.layer].mid)
		case stLinearGate:
			c.Compare(stLinearGate, s.outputOf(c.slot, so.layer), r*s.model.Layers[so.layer].Out.Dim(), ref.layers[so.layer].out)
		default:
			c.rowBack(so, i)
		}
	}
	c.checkBack(so)
	c.Stops(c.poisonShared(so))
}

// poisonShared fills with NaN the buffers that the next layer overwrites, so that the check finds a write that is
// missing.
func (c *checker) poisonShared(so *stageOps) error {
	s := c.s
	switch so.stage {
	case stLinearGate:
		return op.Poison(s.dev, s.Compute, s.transientBuffers()...)
	case stRadialBack, stGrads:
		spoilt := s.transientBuffers()
		if !s.computesForces() && so.stage == stRadialBack { // stGrads still reads them
			return nil
		}
		b := s.back.of[so.layer]
		return op.Poison(s.dev, s.Compute, append(spoilt, b.dout, b.dpre, b.dmid, b.dw, b.da)...)
	}
	return nil
}

// checkRadial compares the weights that the MLP computes for the edges of a row; lo is the row's first edge.
func (c *checker) checkRadial(layer, lo int, ref *layerReference) {
	c.Compare(stRadial, c.s.work[layer].w, lo*c.s.columns(layer), op.Arrange(c.s.products[layer], ref.w))
}

// copyBack checks that the result arrives on the host bit for bit.
func (c *checker) copyBack(sl *slot) {
	if c.Stops(c.s.receive(sl, loop.Silent{})) || c.Stops(c.s.Results.Sync()) {
		return
	}
	got := device.Floats(sl.out)
	c.Errs[stD2H].Same(c.Read(sl.result, 0, len(got)), got)
	if sl.energy != nil {
		c.Errs[stD2H].Same(c.Read(c.s.back.energy, 0, 1), device.Floats(sl.energy))
	}
}

// pickRows returns all rows if whole is set or there are at most sampledRows. Otherwise it returns sampledRows random
// rows and the first, the last and the longest row.
func (c *checker) pickRows(rng *rand.Rand, rowptr []int32, whole bool) []int {
	n, longest := len(rowptr)-1, 0
	for r := range n {
		if rowptr[r+1]-rowptr[r] > rowptr[longest+1]-rowptr[longest] {
			longest = r
		}
	}
	if whole {
		return op.PickRows(rng, n, n)
	}
	return op.PickRows(rng, n, sampledRows, 0, n-1, longest)
}

func (c *checker) stageChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for st, e := range c.Errs {
		if !e.Used {
			continue
		}
		tol := tolerances[c.s.k.Precision] // stages after radial inherit its rounding
		switch st {
		case stCollate, stH2D, stD2H:
			tol = 0 // the bits must be equal
		case stSph, stLinearGateBack, stProductBack, stSphBack, stForces, stClip, stOptimizer: // references start from the stage's own inputs
			tol = fp32Tolerance
		case stGraph:
			if c.s.goesBack() {
				tol = c.s.chainTolerance()
			}
		}
		out = append(out, loop.CheckOf(allStages()[st].Name, e.Relative(), tol, len(c.rows), c.s.rows))
	}
	return append(out, c.lawChecks()...)
}
