package input

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Figures of doctor --bench that Peaks reads: the rates of bf16 matrix products and of copies within device memory.
const (
	productMetric = "gemm_bf16"
	copyMetric    = "copy"
)

// Peaks has the rates that doctor --bench measured on one machine's devices.
type Peaks struct {
	path, measuredBy string
	rates            map[string]measuredRates // by the device's name
}

// measuredRates are the best rates of the devices of one name; 0 not measured.
type measuredRates struct{ productFLOPs, copyBytes float64 } // per second

// ReadPeaks reads a report of doctor --bench; it returns nil for the path "". The error is ErrUsage if the report has
// neither rate. If several devices have the same name, the highest rates are used.
func ReadPeaks(path string) (*Peaks, error) {
	if path == "" {
		return nil, nil
	}
	text, err := outside.ReadFound(path)
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --peaks %s: %w", path, err).WithFix("write one with gpuprof doctor --bench --format json")
	}
	var r health.Report
	if err := document.Decode(text, path, &r, document.Health); err != nil {
		return nil, err
	}
	p := &Peaks{path: path, measuredBy: "gpuprof doctor", rates: map[string]measuredRates{}}
	if r.Node != "" {
		p.measuredBy += " on " + document.CleanText(r.Node)
	}
	if !r.Measured.IsZero() {
		p.measuredBy += " (" + r.Measured.UTC().Format("2006-01-02") + ")"
	}
	for i := range r.Devices {
		c := &r.Devices[i]
		rates := p.rates[c.Name]
		if m, ok := c.Metric(productMetric); ok {
			rates.productFLOPs = max(rates.productFLOPs, float64(m.Value))
		}
		if m, ok := c.Metric(copyMetric); ok {
			rates.copyBytes = max(rates.copyBytes, float64(m.Value))
		}
		if rates != (measuredRates{}) {
			p.rates[c.Name] = rates
		}
	}
	if len(p.rates) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --peaks %s: it has no rate of matrix products in bf16 (%s) and none of copies in device memory (%s)", path, productMetric, copyMetric).
			WithFix("write one with gpuprof doctor --bench --format json on the machine of the recording")
	}
	return p, nil
}

// apply sets the measured rates in the devices of a trace. The error is ErrUsage if no device of the trace has the name
// of a measured one.
func (p *Peaks) apply(t *model.Trace) error {
	if p == nil {
		return nil
	}
	known, name := false, ""
	for i := range t.Devices {
		d := &t.Devices[i]
		name = d.Name
		if rates, ok := p.rates[d.Name]; ok {
			d.ProductFLOPsPerS, d.CopyBytesPerS = rates.productFLOPs, rates.copyBytes
			d.MeasuredBy, known = p.measuredBy, true
		}
	}
	if known {
		return nil
	}
	recorded := "names no device"
	if name != "" {
		recorded = "is of the device " + name
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "using --peaks %s: it measured no device of %s, which %s", p.path, t.Path, recorded).
		WithFix("leave --peaks out, or give the report of the machine that recorded this trace")
}
