package document

// Limits of a brief document, in tokens of a language model.
const (
	// DefaultTokens is the limit if none is given.
	DefaultTokens = 2000
	// LeastTokens is the smallest limit: the head of a document and one finding fit.
	LeastTokens = 600
	// BytesPerToken is a lower estimate: six brief documents had 3.19 to 3.99 bytes per token (o200k_base, cl100k_base;
	// 2026-11-28).
	BytesPerToken = 3
)

// Tokens estimates the number of tokens in a text of the given bytes.
func Tokens(bytes int) int { return (bytes + BytesPerToken - 1) / BytesPerToken }
