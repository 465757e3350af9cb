package gpuprof

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DidYouMean suggests the valid name most similar to the typed one, as ` (did you mean "csr"?)`; "" for none.
func DidYouMean(typed string, valid []string) string {
	n := len([]rune(typed))
	if n < 2 {
		return "" // one letter is similar to every short name
	}
	switch strings.ToLower(typed) {
	case "on", "off", "yes", "no", "none":
		return "" // complete words, whose most similar names are their opposites
	}
	best, bestDist := "", max(3, n/2+1)
	for _, v := range valid {
		if d := editDistance(strings.ToLower(typed), strings.ToLower(v)); d < bestDist {
			best, bestDist = v, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// editDistance returns the Levenshtein distance, keeping two rows of the table.
func editDistance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	prev := make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i, ca := range ra {
		cur := make([]int, len(rb)+1)
		cur[0] = i + 1
		for j, cb := range rb {
			cost := 1
			if ca == cb {
				cost = 0
			}
			cur[j+1] = min(prev[j+1]+1, cur[j]+1, prev[j]+cost)
		}
		prev = cur
	}
	return prev[len(rb)]
}

// Plural formats a count with its noun: "1 sample", "2 samples", "2 processes".
func Plural(n int, noun string) string {
	s := strconv.Itoa(n) + " " + noun
	switch {
	case n == 1:
		return s
	case strings.HasSuffix(noun, "s"):
		return s + "es"
	}
	return s + "s"
}

// Cut cuts a text after limit runes and adds an ellipsis; limit 0 cuts nothing. The text must be clean already.
func Cut(s string, limit int) string {
	if limit <= 0 || len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for at := range s {
		if n++; n == limit {
			return s[:at] + "…"
		}
	}
	return s
}

// ShellWord quotes a word for a POSIX shell if necessary.
func ShellWord(w string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"
	if w != "" && strings.Trim(w, plain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// WordList formats "a", "a or b" or "a, b or c" for the last word "or".
func WordList(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
