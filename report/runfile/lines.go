package runfile

import (
	"io"
	"strings"
	"sync"
)

// Lines is a writer of text whose lines a build server only shows. GitHub Actions
// obeys a line that begins with "::", behind any white space, and others obey "##["
// or "##vso[" anywhere in one: a name that a file brought could stop a log's
// commands, or set a variable of the job. A blank takes such a sequence apart.
type Lines struct {
	mu    sync.Mutex
	w     io.Writer
	bare  bool // nothing visible has been written on this line
	colon bool // but a colon, just now
	marks int  // number signs just before, letters behind them passed over
	word  bool // such a letter was just before
}

// NewLines is Lines on w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w, bare: true} }

// Line is a text that a line may begin with.
func Line(text string) string {
	var b strings.Builder
	_, _ = NewLines(&b).Write([]byte(text)) // a Builder takes everything
	return b.String()
}

// Under is the writer below.
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
		l.pass(c)
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

// pass takes note of one byte. What is not ASCII may be white space: behind it a
// line still counts as bare.
func (l *Lines) pass(c byte) {
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
