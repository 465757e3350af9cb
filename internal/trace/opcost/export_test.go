package opcost

// CountCoupling gives tests the numbers of a coupling.
var CountCoupling = countCoupling

// ProductFLOPs returns the FLOPs per row of a product that a text describes, or of its gradients.
func ProductFLOPs(text string, gradients bool) (float64, bool) {
	p, ok := parseProduct(text)
	cost := pathFLOPs
	if gradients {
		cost = gradientFLOPs
	}
	n, counted := p.countFLOPs(cost)
	return n, ok && counted
}
