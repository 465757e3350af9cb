package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// PlainCall removes version suffixes of an entry point: cudaLaunchKernel_ptsz_v7000 becomes cudaLaunchKernel.
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

// CopyText returns the name of a copy in the wording of PyTorch's profiler, so that kernel tables of all trace formats
// have the same rows. from and to are kinds of memory such as "Pageable"; "" unknown.
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

// Median sorts a list and returns its median; 0 without values.
func Median(v []int64) int64 {
	slices.Sort(v)
	return medianOfSorted(v)
}

// Plural formats a number with its noun: "1 copy", "12 copies".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShortName shortens the name of a kernel: it removes the result type void, anonymous namespaces, template arguments
// and parameters, and cuts the rest to longestName characters.
func ShortName(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "void "), "(anonymous namespace)::", "")
	if i := strings.IndexAny(s, "<("); i > 0 {
		s = strings.TrimSpace(s[:i])
	}
	return CutName(s)
}

// CutName cuts a name for a sentence to longestName characters.
func CutName(s string) string { return gpuprof.Cut(s, longestName) }

// longestName limits the length, in characters, of names in sentences. Names can be long because Tensile and Triton
// encode settings in names of kernels, and profilers encode arguments of operators in names of ranges.
const longestName = 80
