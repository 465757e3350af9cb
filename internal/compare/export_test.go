package compare

// Faster names what a later stage would confirm as improved.
func (g *Gate) Faster() []string { return metricNames(g.faster) }
