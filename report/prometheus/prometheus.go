// Package prometheus writes the health of GPUs for the textfile collector of Prometheus's node exporter: in base
// units, and without time stamps, which the collector refuses.
package prometheus

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// units has the last words of a metric's name by unit, as Prometheus requires.
var units = map[string]string{"B/s": "bytes_per_second", "flop/s": "flops_per_second", "s": "seconds", "Hz": "hertz", "W": "watts", "C": "celsius"}

// family is a metric with its samples.
type family struct {
	name, help string
	samples    []string
}

func (f *family) add(labels [][2]string, v float64) {
	if !gpuprof.IsFinite(v) {
		return
	}
	f.samples = append(f.samples, f.name+"{"+view.MetricLabels(labels)+"} "+strconv.FormatFloat(v, 'g', -1, 64))
}

func gaugeOf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Write writes a health report as metrics.
func Write(w io.Writer, r *health.Report) error {
	if r == nil {
		return view.ErrNoRun("a health report")
	}
	healthy := &family{name: "gpuprof_gpu_healthy", help: "1 if the GPU was checked and nothing is off, 0 if something is or it could not be measured, absent if it was not checked; without the label gpu where none could be asked or the fault names none."}
	checked := &family{name: "gpuprof_gpu_checked", help: "1 if a source that decides answered whether the GPU has a fault, 0 if none did."}
	off := &family{name: "gpuprof_gpu_off_ratio", help: "By which share of what is expected a figure is worse; 1 for a fault by the GPU's own account."}
	all := []*family{healthy, checked, off}
	figures := map[string]*family{}
	for _, name := range health.Names() {
		f := &family{name: "gpuprof_gpu_" + name + "_" + units[health.Unit(name)], help: "Figure " + name + " of gpuprof doctor --bench."}
		figures[name] = f
		all = append(all, f)
	}
	for i := range r.Devices {
		c := &r.Devices[i]
		gpu := c.Device
		if gpu == health.AllGPUs {
			gpu = "" // AllGPUs is no GPU's name; an empty label is left out
		}
		labels := [][2]string{{"node", r.Node}, {"gpu", gpu}, {"uuid", c.UUID}, {"pci", c.PCI}}
		isOff := c.Error != "" || slices.ContainsFunc(r.Off, func(o health.Off) bool { return o.Device == c.Device })
		checked.add(labels, gaugeOf(c.Checked()))
		if isOff || c.Checked() { // a GPU that was not checked is neither healthy nor faulty
			healthy.add(labels, gaugeOf(!isOff))
		}
		for _, o := range r.Off {
			if o.Device != c.Device {
				continue
			}
			worse := float64(o.Worse)
			if !gpuprof.IsFinite(worse) {
				worse = 1
			}
			off.add(append(slices.Clone(labels), [2]string{"metric", o.Metric}), worse)
		}
		for _, name := range health.Names() {
			if m, ok := c.Metric(name); ok {
				figures[name].add(labels, float64(m.Value))
			}
		}
	}
	if !r.Measured.IsZero() {
		f := &family{name: "gpuprof_check_timestamp_seconds", help: "When the check was made, seconds since 1970."}
		f.add([][2]string{{"node", r.Node}}, float64(r.Measured.Unix()))
		all = append(all, f)
	}
	return writeFamilies(w, all)
}

func writeFamilies(w io.Writer, all []*family) error {
	out := bufio.NewWriter(w)
	for _, f := range all {
		if len(f.samples) == 0 {
			continue
		}
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", f.name, f.help, f.name) // Flush returns the error
		for _, s := range f.samples {
			fmt.Fprintln(out, s)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing metrics for Prometheus: %w", err)
	}
	return nil
}
