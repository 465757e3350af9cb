package analyze

// renameOldFields moves values to the fields of the current version: before gpuprof 2.1.0, Finding.Knob held the advice
// that Finding.PyTorch holds now.
func (a *Analysis) renameOldFields() {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.PyTorch == "" {
			f.PyTorch, f.Knob = f.Knob, ""
		}
	}
}

func (c *Comparison) renameOldFields() {
	for _, a := range []*Analysis{c.Old, c.New} {
		if a != nil {
			a.renameOldFields()
		}
	}
}
