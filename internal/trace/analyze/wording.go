package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// PlainCall takes off what tells apart the versions of one entry point:
// cudaLaunchKernel_ptsz_v7000 is cudaLaunchKernel.
func PlainCall(s string) string {
	for {
		cut := s
		if i := strings.LastIndex(cut, "_v"); i > 0 && i+2 < len(cut) && strings.Trim(cut[i+2:], "0123456789") == "" {
			cut = cut[:i]
		}
		cut = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(cut, "_ptsz"), "_ptds"), "_spt")
		if cut == s {
			return s
		}
		s = cut
	}
}

// CopyText words a copy as PyTorch's profiler does, so that traces of every kind have the same
// rows in a kernel table. from and to are kinds of memory, "Pageable" say; "" unknown.
func CopyText(d model.Direction, from, to string) string {
	name := "Memcpy"
	switch d {
	case model.H2D:
		name = "Memcpy HtoD"
	case model.D2H:
		name = "Memcpy DtoH"
	case model.D2D:
		name = "Memcpy DtoD"
	case model.P2P:
		name = "Memcpy PtoP"
	case model.H2H:
		name = "Memcpy HtoH"
	}
	if from == "" || to == "" {
		return name
	}
	return name + " (" + from + " -> " + to + ")"
}

// Median of a list, which it sorts; 0 for none.
func Median(v []int64) int64 {
	slices.Sort(v)
	return middle(v)
}

// Plural is "1 copy" or "12 copies".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShortName cuts a kernel's template arguments and parameters off.
func ShortName(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "void "), "(anonymous namespace)::", "")
	if i := strings.IndexAny(s, "<("); i > 0 {
		s = strings.TrimSpace(s[:i])
	}
	if r := []rune(s); len(r) > shortest {
		s = string(r[:shortest-1]) + "…"
	}
	return s
}

// shortest is how much of a name stays in a sentence, in characters: Tensile and Triton
// spell their settings out.
const shortest = 80
