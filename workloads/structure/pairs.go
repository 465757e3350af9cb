package structure

import "strings"

// pairScanner splits the comment line of an extended XYZ file into key=value pairs. A value is bare, in single or
// double quotes with backslash escapes, in braces or in (nested) square brackets. A lone key has an empty value.
type pairScanner struct {
	text string
	at   int
}

// next returns the next pair, an empty key at the end of the line, or a clause that describes a defect.
func (p *pairScanner) next() (key, value, problem string) {
	for {
		p.skipSpace()
		if p.at >= len(p.text) {
			return "", "", ""
		}
		if key, problem = p.readItem("="); problem != "" {
			return "", "", problem
		}
		if key != "" {
			break
		}
		p.at++ // a stray "=" or an empty quoted word has no information
	}
	p.skipSpace()
	if p.at >= len(p.text) || p.text[p.at] != '=' {
		return key, "", ""
	}
	p.at++
	p.skipSpace()
	value, problem = p.readItem("")
	return key, value, problem
}

func (p *pairScanner) skipSpace() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// readItem reads one key or value. Without quotes or brackets, it ends at white space or at a character of stop.
func (p *pairScanner) readItem(stop string) (text, problem string) {
	if p.at >= len(p.text) {
		return "", ""
	}
	switch c := p.text[p.at]; c {
	case '"', '\'':
		return p.readQuoted(c)
	case '{':
		return p.readBracketed('{', '}')
	case '[':
		return p.readBracketed('[', ']')
	}
	begin := p.at
	for p.at < len(p.text) && !strings.ContainsRune(" \t"+stop, rune(p.text[p.at])) {
		p.at++
	}
	return p.text[begin:p.at], ""
}

func (p *pairScanner) readQuoted(mark byte) (text, problem string) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == mark:
			p.at = i + 1
			return b.String(), ""
		case c == '\\' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "a quote " + string(mark) + " of the comment line is never closed"
}

// readBracketed returns the text between the brackets, including inner brackets.
func (p *pairScanner) readBracketed(open, end byte) (text, problem string) {
	begin, depth := p.at+1, 0
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				p.at++
				return p.text[begin : p.at-1], ""
			}
		}
	}
	return "", "a bracket " + string(open) + " of the comment line is never closed"
}
