package analyze

// upgrade gives an analysis that an older gpuprof wrote the names of this version:
// before 2.1.0 the line to change in a PyTorch program was the finding's knob.
func (a *Analysis) upgrade() {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.PyTorch == "" {
			f.PyTorch, f.Knob = f.Knob, ""
		}
	}
}

// upgrade does so for both sides.
func (c *Comparison) upgrade() {
	for _, a := range []*Analysis{c.Old, c.New} {
		if a != nil {
			a.upgrade()
		}
	}
}
