package gpuprof

// Warning is something the reader must know before believing a figure: of a run,
// a trace, a comparison or a recording. It is data, and it names the next step.
type Warning struct {
	Code string `json:"code"` // stable, kebab-case: "not-settled"
	Text string `json:"text"` // one sentence: what was seen
	Fix  string `json:"fix"`  // what to do about it; empty where nothing helps
}

// Sentence is the text with its fix.
func (w Warning) Sentence() string { return withFix(w.Text, w.Fix) }

func (w Warning) String() string { return w.Code + ": " + w.Sentence() }

// withFix joins a text and its fix for printing.
func withFix(text, fix string) string {
	if fix == "" {
		return text
	}
	return text + "; " + fix
}
