package memsnap

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Decode reads an analysis. name is the file name in errors, which are ErrInput.
func Decode(text []byte, name string) (*Analysis, error) {
	a := &Analysis{}
	if err := document.Decode(text, name, a, document.Memory); err != nil {
		return nil, err
	}
	ok := len(a.Devices) > 0
	for i := range a.Devices {
		d := &a.Devices[i]
		s := &d.Series
		n := len(s.Event)
		for k := range d.WhatIf {
			if w := &d.WhatIf[k]; w.LeastReserved == 0 { // before schema 1.2 all figures were exact
				w.LeastReserved, w.Exact = w.PeakReserved, true
			}
		}
		ok = ok && d.Input >= 0 && d.Input < len(a.Inputs) && len(s.TimeUS) == n && len(s.Requested) == n && len(s.Least) == n && len(s.Reserved) == n
		for _, k := range s.Kinds {
			ok = ok && len(k.Bytes) == n
		}
	}
	for _, f := range a.Findings {
		ok = ok && f.Device >= 0 && f.Device < len(a.Devices)
	}
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: its devices, series and findings do not fit together", name).WithFix("analyse the snapshot again with gpuprof analyze")
	}
	return a, nil
}
