package html

import "strings"

// piece is a text, or a command-line flag, which must not be broken at its hyphens.
type piece struct {
	S    string
	Code bool
}

// splitFlags splits a text into flags and other text. A percent sign stays on the line of its number.
func splitFlags(text string) []piece {
	var out []piece
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			out = append(out, piece{S: plain.String()})
			plain.Reset()
		}
	}
	for i, w := range strings.Fields(text) {
		if i > 0 {
			gap := " "
			if strings.HasPrefix(w, "%") {
				gap = "\u00a0"
			}
			plain.WriteString(gap)
		}
		flag := strings.TrimRight(strings.TrimLeft(w, "("), ",.;:)")
		if !strings.HasPrefix(flag, "--") || len(flag) > 40 {
			plain.WriteString(w)
			continue
		}
		before, after, _ := strings.Cut(w, flag)
		plain.WriteString(before)
		flush()
		out = append(out, piece{flag, true})
		plain.WriteString(after)
	}
	flush()
	return out
}
