//go:build !amd64

package gruflow

func dot(a, b []float32) float32           { return dotGeneric(a, b) }
func sigmoidAll(x []float32)               { sigmoidGeneric(x) }
func tanhAll(x []float32)                  { tanhGeneric(x) }
func cell(gx, gh, h []float32, stride int) { cellGeneric(gx, gh, h, stride) }
func keepCells(c *keptCells)               { keepGeneric(c) }
func backCells(c *keptCells)               { backGeneric(c) }
