package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// alignedTo maps a precision to the number of elements of which the sizes of a matrix product must be multiples, so
// that kernels can access 16 bytes at a time (NVIDIA Matrix Multiplication Background User's Guide).
var alignedTo = map[string]int64{"16-bit": 8, "tf32": 4, "fp8": 16, "int8": 16}

// alignedProduct compares a matrix product with the reachable rate.
type alignedProduct struct {
	of   *analyze.RooflineOperator
	odd  []string // the sizes that are not multiples of alignedTo: "N = 3238"
	grid productGrid
	// spare is the share of the time that a kernel at the reachable rate would save; for aligned sizes, at most
	// waveLoss.
	spare float64
}

// describe returns the main cause of the low rate, the change that removes it, and other causes.
func (p *alignedProduct) describe() (cause, change string, others []string) {
	reasons := p.grid.reasons()
	unit := alignedTo[p.of.Precision]
	if len(p.odd) > 0 {
		return fmt.Sprintf("with sizes that are no multiples of %d (%s: %s)", unit, p.of.Name, strings.Join(p.odd, ", ")),
			fmt.Sprintf("pad these sizes to multiples of %d: the layer's features, the vocabulary, the batch (torch.nn.functional.pad, or padding_idx and a mask)", unit), reasons
	}
	full := (p.grid.waves() - 1) * p.grid.sms
	return fmt.Sprintf("with a last round of tiles that leaves multiprocessors free (%s: %s)", p.of.Name, reasons[0]),
		fmt.Sprintf("choose the batch or the layer's features so that the tiles fill whole rounds: %d or %d tiles of %dx%d for %d",
			full, full+p.grid.sms, p.grid.rows, p.grid.columns, p.grid.blocks), reasons[1:]
}

// findOffPeakGEMM reports matrix products on tensor cores below the reachable rate. Their sizes are not multiples of
// alignedTo, or their tiles leave multiprocessors free in the last wave. The finding claims the time that the reachable
// rate would save; for the last wave, at most the time that the wave leaves free.
func (c *ruleContext) findOffPeakGEMM() []analyze.Found {
	r := c.x.Roofline
	if r == nil || r.Reachable <= 0 || len(c.devices) == 0 || c.isAMD(c.devices[0]) {
		return nil
	}
	grids := c.readGrids(r)
	odd, worst := matchOperators(r, func(o *analyze.RooflineOperator) (alignedProduct, bool) {
		return checkProduct(o, grids[o], r.Reachable)
	})
	if worst == nil {
		return nil
	}
	pick := func(g int32) bool { _, ok := odd[r.Rows[g]]; return ok }
	cl := c.claimByDevice(c.takeShares(func(g int32) float64 { return odd[r.Rows[g]].spare }))
	share := 100 * worst.of.Share()
	cause, change, others := worst.describe()
	f := c.newFinding(cl, fmt.Sprintf("matrix products run at %.0f %% of the %s peak %s", share, worst.of.Precision, cause))
	f.Evidence["products"] = len(odd)
	f.Evidence["tflop_per_s"] = worst.of.FLOPs * worst.of.Calls / float64(worst.of.NS) / 1e3
	f.Evidence["peak_percent"] = share
	f.Evidence["reachable_percent"] = 100 * r.Reachable
	f.Sites = c.listProductSites(pick)
	f.PyTorch = change
	if len(others) > 0 {
		f.Caveats = append(f.Caveats, "other causes: "+strings.Join(others, "; "))
	}
	reachedBy := "the best public products in bf16 reach on the " + r.Device
	if r.ReachedBy != "" {
		reachedBy = r.ReachedBy + " measured for products in bf16"
	}
	f.Caveats = append(f.Caveats, fmt.Sprintf("the bound is %.0f %% of the peak, which %s; other causes than the sizes may keep these from it", 100*r.Reachable, reachedBy))
	return []analyze.Found{f}
}

// matchOperators returns the results of check, by index in r.Operators, for the operators that check accepts. worst is
// the first result, because the operators are sorted by their time above the bound; nil without results.
func matchOperators[T any](r *analyze.Roofline, check func(o *analyze.RooflineOperator) (T, bool)) (rows map[int32]T, worst *T) {
	rows = map[int32]T{}
	for i := range r.Operators {
		match, ok := check(&r.Operators[i])
		if !ok {
			continue
		}
		rows[int32(i)] = match
		if worst == nil {
			worst = &match
		}
	}
	return rows, worst
}

// checkProduct returns a matrix product with the causes of its low rate. It returns false if the product reaches the
// reachable rate (a share of the peak), or no cause is known.
func checkProduct(o *analyze.RooflineOperator, grid productGrid, reachable float64) (alignedProduct, bool) {
	unit := alignedTo[o.Precision]
	if o.Bound != "compute" || unit == 0 || o.NS <= 0 || len(o.Product) != 3 {
		return alignedProduct{}, false
	}
	p := alignedProduct{of: o, grid: grid, spare: 1 - float64(o.BoundNS)/reachable/float64(o.NS)}
	for i, name := range []string{"M", "N", "K"} {
		if n := o.Product[i]; n%unit != 0 {
			p.odd = append(p.odd, fmt.Sprintf("%s = %d", name, n))
		}
	}
	if len(p.odd) == 0 {
		p.spare = min(p.spare, grid.waveLoss())
		return p, p.spare > 0 && grid.waveLoss() >= leastWaveLoss
	}
	return p, p.spare > 0
}
