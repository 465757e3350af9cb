package gpuprof

// Warning states why figures of a run, trace, comparison or recording are missing or less reliable, with the next step.
type Warning struct {
	Code string `json:"code"` // stable, kebab-case: "not-settled"
	Text string `json:"text"` // one sentence: the observation
	Fix  string `json:"fix"`  // what to do about it; empty if nothing helps
}

// Sentence returns the text with its fix.
func (w Warning) Sentence() string { return withFix(w.Text, w.Fix) }

func (w Warning) String() string { return w.Code + ": " + w.Sentence() }

func withFix(text, fix string) string {
	if fix == "" {
		return text
	}
	return text + "; " + fix
}
