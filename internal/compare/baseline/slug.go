package baseline

import "strings"

// Slug converts a name to a file name that is valid on any system: lower case, digits, dots and single dashes.
func Slug(s string) string {
	var b []byte
	for _, c := range strings.ToLower(s) {
		last := byte('-')
		if len(b) > 0 {
			last = b[len(b)-1]
		}
		word := last != '-' && last != '.'
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b = append(b, byte(c))
		case c == '.' && word:
			b = append(b, '.')
		case last == '.':
			b[len(b)-1] = '-'
		case word:
			b = append(b, '-')
		}
	}
	out := strings.Trim(string(b[:min(len(b), 80)]), "-.")
	if out == "" {
		return "unnamed"
	}
	return out
}
