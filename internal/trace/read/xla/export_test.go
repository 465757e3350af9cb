package xla

// KernelInstructions returns the names of the instructions in an HloProto that may become kernels: those outside
// fusions.
func KernelInstructions(text []byte) (names []string) {
	p := readProgram(text)
	fused := map[uint64]bool{}
	for _, in := range p.instructions {
		if in.opcode == "fusion" {
			for _, id := range in.called {
				fused[id] = true
			}
		}
	}
	for id, all := range p.computations {
		for _, in := range all {
			if !fused[id] {
				names = append(names, in.name)
			}
		}
	}
	return names
}
