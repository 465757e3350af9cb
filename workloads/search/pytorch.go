package search

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/workloads"
)

// PyTorchLine returns the line to change in a PyTorch program for a value of a workload's knob, or "".
func PyTorchLine(w workloads.Workload, knob, value string) string {
	k, _ := workloads.FindKnob(w, knob)
	return workloads.LineFor(k.PyTorch, value)
}

// Beginnings of lines that several knobs share. Such lines are merged: one line per knob would call the loader, or
// compile, several times, and only the last call would count.
const (
	loaderCall  = "loader = DataLoader(dataset, "
	compileCall = "model = torch.compile(model"
)

// pytorchLines returns the lines to change for several knobs at once, one per call.
func pytorchLines(w workloads.Workload, changes []Change) []string {
	out := []string{}
	var loader, compiled []string
	for _, c := range changes {
		line := PyTorchLine(w, c.Knob, c.To)
		args, loads := strings.CutPrefix(line, loaderCall)
		switch {
		case line == "":
		case loads:
			loader = append(loader, strings.TrimSuffix(args, ")"))
		case strings.HasPrefix(line, compileCall):
			compiled = append(compiled, line)
		default:
			out = append(out, line)
		}
	}
	// Drop a line that another line ends with: the line for a separate stream includes the copy itself.
	out = slices.DeleteFunc(out, func(line string) bool {
		return slices.ContainsFunc(out, func(o string) bool { return o != line && strings.HasSuffix(o, ": "+line) })
	})
	if len(loader) > 0 {
		out = append(out, loaderCall+strings.Join(loaderArgs(loader), ", ")+")")
	}
	return append(out, compileLine(compiled)...)
}

// loaderArgs returns the arguments of one loader, with the number of workers only once. Without workers it drops the
// arguments about workers, which PyTorch refuses.
func loaderArgs(args []string) []string {
	const anyNumber = "num_workers=N"
	number := ""
	var out []string
	for _, a := range args {
		if strings.HasPrefix(a, "num_workers=") && !strings.HasPrefix(a, anyNumber) {
			number = a
			continue
		}
		rest, about := strings.CutPrefix(a, anyNumber)
		if rest = strings.TrimPrefix(rest, ", "); about && number == "" {
			number = anyNumber
		}
		if rest != "" {
			out = append(out, rest)
		}
	}
	if number == "num_workers=0" {
		out = slices.DeleteFunc(out, func(a string) bool {
			return strings.HasPrefix(a, "persistent_workers=") || strings.HasPrefix(a, "prefetch_factor=")
		})
	}
	if number != "" {
		out = append([]string{number}, out...)
	}
	return out
}

// compileLine merges the lines that compile the model: the mode max-autotune includes CUDA graphs.
func compileLine(lines []string) []string {
	if len(lines) < 2 {
		return lines
	}
	modes := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, compileCall+", mode=") })
	switch len(modes) {
	case 0:
		return []string{compileCall + ")  # without a mode"}
	case 1:
		return modes
	}
	return []string{compileCall + ", mode='max-autotune')"}
}
