package kineto

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
)

func benchText(b *testing.B, o tracetest.Options) []byte {
	b.Helper()
	var text bytes.Buffer
	text.Grow(int(o.Bytes) + 1<<20)
	if _, err := tracetest.Write(&text, o); err != nil {
		b.Fatal(err)
	}
	return text.Bytes()
}

// BenchmarkScan is one parser alone, without merging and Finish.
func BenchmarkScan(b *testing.B) {
	text := benchText(b, tracetest.Options{Bytes: 1 << 20, Array: true})
	n := len(text)
	buf := growBuffer(bytes.Clone(text), n)
	writePadding(buf, n)
	p := newParser(0)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		if t := p.parseEvents(buf, n, 1, 0, true); !t.ended {
			b.Fatal("the array did not end")
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, python := range []bool{false, true} {
		text := benchText(b, tracetest.Options{Bytes: 64 << 20, Python: python, Memory: python, Stacks: python})
		for _, parsers := range []int{1, 2} {
			b.Run(fmt.Sprintf("python=%v/parsers=%d", python, parsers), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := read(context.Background(), bytes.NewReader(text), "bench", readOptions{parsers: parsers, block: 1 << 20}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
