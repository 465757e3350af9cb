//go:build !race

package kineto

import (
	"context"
	"testing"
)

// Under the race detector reading takes ten times as long, and smaller traces pass through
// the same goroutines.

func TestLargeAgainstEncodingJSON(t *testing.T) { againstEncodingJSON(t, 1) }

func TestLargeTruncatedCompression(t *testing.T) { truncatedCompression(t, 3<<20) }

// A stream without end is left once it can hold nothing more.
func TestEndlessText(t *testing.T) {
	for name, in := range map[string]string{"nothing": "\x00", "no JSON": "x", "behind a trace": list(op("a", 1)) + "y"} {
		r := &endless{head: in[:len(in)-1], tail: in[len(in)-1]}
		_, err := Read(context.Background(), r, "t", 0)
		if name == "behind a trace" != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if r.n > 4*carryMax {
			t.Errorf("%s: %d bytes were read", name, r.n)
		}
	}
}

type endless struct {
	head string
	tail byte
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.head)
	e.head = e.head[n:]
	for i := n; i < len(p); i++ {
		p[i] = e.tail
	}
	e.n += len(p)
	return len(p), nil
}
