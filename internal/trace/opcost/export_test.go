package opcost

// CountCoupling gives tests the numbers of a coupling.
var CountCoupling = countCoupling

// ProductFLOPs returns the FLOPs per row of a product that a text describes.
func ProductFLOPs(text string) (float64, bool) {
	p, ok := parseProduct(text)
	n, counted := p.countFLOPs()
	return n, ok && counted
}
