package runfile

import (
	"io"
	"strings"
	"sync"
)

// Lines is a writer that prevents build servers from executing lines of a text as commands. GitHub Actions executes a
// line that begins with "::", also after white space; other servers execute "##[" or "##vso[" anywhere in a line. A
// command could stop the log, or set a variable of the job. Lines inserts a blank into these sequences.
type Lines struct {
	mu    sync.Mutex
	w     io.Writer
	bare  bool // the line has only white space so far
	colon bool // the previous byte was a colon, and the line's first visible byte
	marks int  // number of preceding "#", letters after them ignored
	word  bool // a letter after "#" was the previous byte
}

// NewLines returns a Lines that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w, bare: true} }

// Line returns a text that is safe at the start of a line.
func Line(text string) string {
	var b strings.Builder
	_, _ = NewLines(&b).Write([]byte(text)) // writing to a Builder cannot fail
	return b.String()
}

// Under returns the underlying writer.
func (l *Lines) Under() io.Writer { return l.w }

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var apart []byte
	from := 0
	for i, c := range p {
		if c == ':' && l.colon || c == '[' && l.marks > 1 {
			apart = append(append(apart, p[from:i]...), ' ')
			from = i
		}
		l.trackByte(c)
	}
	text := p
	if apart != nil {
		apart = append(apart, p[from:]...)
		text = apart
	}
	if _, err := l.w.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// trackByte updates the state by one byte. A byte of a non-ASCII character may be white space, so that bare stays true.
func (l *Lines) trackByte(c byte) {
	l.colon = l.bare && c == ':'
	switch {
	case c == '\n' || c == '\r':
		l.bare = true
	case c > ' ' && c <= '~':
		l.bare = false
	}
	letter := c|0x20 >= 'a' && c|0x20 <= 'z'
	switch {
	case c == '#' && l.word:
		l.marks = 1
	case c == '#':
		l.marks++
	case !letter:
		l.marks = 0
	}
	l.word = letter && l.marks > 0
}
