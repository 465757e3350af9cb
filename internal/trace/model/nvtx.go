package model

import (
	"slices"
	"strconv"
	"strings"
)

// PyTorch's emit_nvtx names a range by its operator and appends details of the call: "aten::mm, seq = 12, op_id = 34,
// sizes = [[2, 3], [3, 4]]". Without record_shapes and sequence number, older versions append nothing.

// SplitNVTX splits such a text: the name, the sequence number plus one (0 none), and whether PyTorch wrote it.
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

// RangeKind distinguishes operators from ranges that a program or a library named. The text has no explicit mark:
// record_function goes through emit_nvtx too. An operator has a namespace, or is one plain word with PyTorch's marks
// on it, while names with blanks, brackets or a # ("Optimizer.step#Adam.step", "FSDP::forward (layer1)") come from
// record_function.
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

// libraryDomains are the NVTX domains of libraries: their ranges mark no steps of a program.
var libraryDomains = [...]string{"NCCL", "CCCL", "CUB", "Thrust", "cuBLAS", "cuDNN", "CUDNN", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE", "cuTENSOR", "NVSHMEM", "UCX", "TSL", "XLA", "libcudf", "libkvikio"}

// DomainRange returns the name of a range in an NVTX domain: with the domain before it if the domain belongs to a
// library.
func DomainRange(domain, name string) string {
	for _, d := range libraryDomains {
		if strings.HasPrefix(domain, d) {
			return d + ": " + name
		}
	}
	return name
}

// OfLibrary reports whether a name has the domain of a library, as DomainRange adds it.
func OfLibrary(name string) bool {
	domain, _, ok := strings.Cut(name, ": ")
	return ok && slices.Contains(libraryDomains[:], domain)
}
