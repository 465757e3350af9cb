package document

// The limits of a brief document, whose size is counted in the tokens of a language model.
const (
	// DefaultTokens is the limit where none is given.
	DefaultTokens = 2000
	// LeastTokens is the smallest limit: the head of a document and a finding fit.
	LeastTokens = 600
	// BytesPerToken is the estimate by which a limit counts, on the safe side: six brief documents took 3.19 to 3.99
	// bytes per token of the encodings o200k_base and cl100k_base (2026-11-28).
	BytesPerToken = 3
)

// Tokens estimates the number of tokens of a text of so many bytes.
func Tokens(bytes int) int { return (bytes + BytesPerToken - 1) / BytesPerToken }
