package analyze

// renameOldFields moves fields of older versions: before 2.1.0 Knob held the line to change in a PyTorch program.
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
