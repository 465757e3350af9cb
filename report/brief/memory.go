package brief

import (
	"cmp"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Memory shortens an analysis of memory snapshots.
func Memory(a *memsnap.Analysis) (*Document, error) {
	if len(a.Devices) == 0 {
		return nil, view.ErrNoRun("an analysis of memory")
	}
	d := newDocument(a.Head)
	var paths []string
	for _, in := range a.Inputs {
		paths = append(paths, in.Path)
	}
	d.addInputs(paths...)
	first := &a.Devices[0]
	moment, when := first.Shown()
	d.Summary = fmt.Sprintf("Device %d: peak %s of tensors, %s reserved; at %s tensors hold %s.", first.ID,
		bytesText(first.Peak.Requested), bytesText(first.PeakReserved), cutText(when, shortText), bytesText(moment.Requested))
	if n := len(first.OOMs); n > 0 {
		d.Summary += fmt.Sprintf(" A request of %s failed; the device had %s free.", bytesText(first.OOMs[0].Request), bytesText(first.OOMs[0].DeviceFree))
	}
	if len(a.Findings) == 0 {
		d.Summary += " There are no findings."
	}
	for i := range a.Findings {
		d.Findings = append(d.Findings, memoryFinding(a, &a.Findings[i]))
	}
	d.memoryMetrics(a, moment)
	d.addWarnings(a.Warnings)
	d.countSkipped("devices", len(a.Devices)-1)
	d.countSkipped("blocks", len(moment.Blocks))
	d.countSkipped("steps", len(first.Steps))
	d.countSkipped("other settings", len(first.WhatIf))
	return d, nil
}

// memoryMetrics adds the bytes that each code line holds, or for a comparison the changes of memory.
func (d *Document) memoryMetrics(a *memsnap.Analysis, m *memsnap.Moment) {
	none := [2]gpuprof.Number{unknownNumber(), unknownNumber()}
	if a.Before != nil {
		d.Metrics = append(d.Metrics, Metric{Name: "peak of tensors", Unit: "B", Old: optionalNumber(float64(a.Before.Peak)), New: optionalNumber(float64(a.Devices[0].Peak.Requested)), Interval: none})
		for _, c := range a.Before.Changes {
			d.Metrics = append(d.Metrics, Metric{Name: cutPlace(c.Where), Unit: "B", Old: optionalNumber(float64(c.Before)), New: optionalNumber(float64(c.After)), Interval: none})
		}
		return
	}
	for _, s := range m.Sites {
		d.Metrics = append(d.Metrics, Metric{Name: cutPlace(s.Where) + " (" + s.Category + ")", Unit: "B", Value: optionalNumber(float64(s.Bytes)), Interval: none})
	}
}

func memoryFinding(a *memsnap.Analysis, f *memsnap.Finding) Finding {
	out := Finding{ID: f.Rule, Severity: f.Severity, Title: cutText(f.Title, longText), Share: f.Share, Change: cutText(f.PyTorch, longText), Caveats: cutTexts(f.Caveats, shortText)}
	out.setSaving(float64(f.ClaimBytes), "bytes")
	for _, s := range f.Sites[:min(len(f.Sites), mostInputs)] {
		out.Where = append(out.Where, cutPlace(s.Where))
	}
	in := &a.Inputs[a.Devices[f.Device].Input]
	out.Verify = cutText("gpuprof run --memory -o changed -- COMMAND && gpuprof analyze --compare "+gpuprof.ShellWord(cmp.Or(in.Opens, in.Path))+" changed", longText)
	return out
}

func bytesText(n int64) string { return gpuprof.FormatBytes(float64(n)) }
