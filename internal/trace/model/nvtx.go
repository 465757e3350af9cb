package model

import (
	"slices"
	"strconv"
	"strings"
)

// SplitNVTX splits the text of a range of PyTorch's emit_nvtx into the name and the sequence number plus one (0 none).
// An example is "aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]]". marked reports whether the text has
// PyTorch's additions. Older versions add nothing if record_shapes is off and the range has no sequence number.
func SplitNVTX(s string) (name string, seq int64, marked bool) {
	cut := len(s)
	for _, key := range []string{", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "} {
		if i := strings.Index(s, key); i > 0 {
			cut, marked = min(cut, i), true
			if key == ", seq = " {
				digits, _, _ := strings.Cut(s[i+len(key):], ",")
				if n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64); err == nil && n >= 0 && n < 1<<62 {
					seq = n + 1
				}
			}
		}
	}
	if cut == 0 {
		return "unnamed range", seq, marked
	}
	return s[:cut], seq, marked
}

// RangeKind distinguishes operators from ranges named by a program or a library. emit_nvtx marks both alike, because
// record_function uses it too. An operator has a namespace or a sequence number, or is one plain word with PyTorch's
// marks. Names with blanks, brackets or a # ("Optimizer.step#Adam.step") come from record_function.
func RangeKind(name string, seq, marked bool) Kind {
	if strings.HasPrefix(name, "ProfilerStep#") {
		return Step
	}
	rest := strings.TrimPrefix(name, "autograd::engine::evaluate_function: ")
	switch {
	case strings.ContainsAny(rest, " #()"):
		return Annotation
	case strings.Contains(rest, "::"), seq:
		return Op
	case marked && !strings.ContainsAny(rest, ".:/"):
		return Op
	}
	return Annotation
}

// libraryDomains are NVTX domains of libraries, whose ranges mark no steps of a program.
var libraryDomains = [...]string{"NCCL", "CCCL", "CUB", "Thrust", "cuBLAS", "cuDNN", "CUDNN", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE", "cuTENSOR", "NVSHMEM", "UCX", "TSL", "XLA", "libcudf", "libkvikio"}

// DomainRange returns the name of a range, preceded by its NVTX domain if a library owns the domain.
func DomainRange(domain, name string) string {
	for _, d := range libraryDomains {
		if strings.HasPrefix(domain, d) {
			return d + ": " + name
		}
	}
	return name
}

// OfLibrary reports whether a name starts with the domain of a library, as DomainRange adds it.
func OfLibrary(name string) bool {
	domain, _, ok := strings.Cut(name, ": ")
	return ok && slices.Contains(libraryDomains[:], domain)
}
