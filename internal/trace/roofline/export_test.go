package roofline

import "github.com/gpuprof/gpuprof/internal/trace/model"

// RowOf is the name of the data sheet's row of a device, "" without one.
func RowOf(d *model.Device) string {
	p, _ := findPeak(d)
	return p.name
}
