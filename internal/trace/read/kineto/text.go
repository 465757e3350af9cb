package kineto

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeString returns the text of a JSON string as valid UTF-8. Unknown escapes stay unchanged; invalid bytes
// become U+FFFD.
func decodeString(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, size := codePoint(raw[i+1:])
			if size == 0 {
				out = append(out, '\\', 'u')
			} else {
				out = utf8.AppendRune(out, r)
			}
			i += size
		default:
			out = append(out, '\\', c)
		}
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// codePoint parses four hexadecimal digits, or a surrogate pair. It returns the number of bytes used, 0 without
// digits.
func codePoint(s []byte) (rune, int) {
	r, ok := parseHex4(s)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
			if low, ok := parseHex4(s[6:]); ok {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					return both, 10
				}
			}
		}
		return utf8.RuneError, 4
	}
	return r, 4
}

func parseHex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func reverseFrames(s string) string {
	frames := strings.Split(s, ";")
	out := frames[:0]
	for _, f := range frames {
		if f = strings.TrimSpace(f); f != "" {
			out = append(out, f)
		}
	}
	slices.Reverse(out)
	return strings.Join(out, ";")
}
