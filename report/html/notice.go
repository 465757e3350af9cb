package html

import (
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// notice is a view.Notice in pieces that a line may break between.
type notice struct {
	Head      string
	Text, Fix []piece
	Each      [][]piece
}

// piece is text, or a flag of the command line, which must not be broken at
// its hyphens.
type piece struct {
	S    string
	Code bool
}

func notices(runs []*gpuprof.Run) []notice {
	var out []notice
	for _, n := range view.Notices(runs) {
		v := notice{Head: n.Head(), Text: pieces(n.Text), Fix: pieces(n.Fix)}
		for _, each := range n.Each {
			v.Each = append(v.Each, pieces(each))
		}
		out = append(out, v)
	}
	return out
}

// pieces sets flags apart and keeps a percent sign with its number.
func pieces(text string) []piece {
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
