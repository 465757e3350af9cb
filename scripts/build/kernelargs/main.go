// Kernelargs reads the parameter lists of the CUDA kernels in the given folders, and writes a file kernels_gen.go
// into each folder: a struct per list with the parameters as fields. A launch fills in the struct (package
// device, Params), and the kernel's host code reads it (device.View).
//
//	go run ./scripts/build/kernelargs workloads/op workloads/optim …
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// kernel is one __global__ function. If a macro parameter gives the function's name, name is the macro's.
type kernel struct {
	file, name string
	params     []param
}

// param is one parameter: its kind "B" (pointer), "I" (int) or "F" (float), and its C name.
type param struct{ kind, name string }

var (
	comment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	define  = regexp.MustCompile(`(?m)^[ \t]*#define[ \t]+(\w+)(\([^)]*\))?[ \t]+(.*)$`)
	head    = regexp.MustCompile(`extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)`)
	word    = regexp.MustCompile(`\b\w+\b`)
	pointer = regexp.MustCompile(`^(?:const )?(?:volatile )?(?:unsigned |signed )?\w+ \* ?(?:__restrict__ )?(\w+)$`)
	value   = regexp.MustCompile(`^(int|float) (\w+)$`)
)

func main() {
	var errs []error
	for _, dir := range os.Args[1:] {
		text, err := generateFile(dir)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "kernels_gen.go"), text, 0o644)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "kernelargs:", err)
		os.Exit(1)
	}
}

// generateFile returns the text of a folder's kernels_gen.go. The package has the folder's name.
func generateFile(dir string) ([]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var all []kernel
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		found, err := parseKernels(filepath.Base(f), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	text, err := writeFile(filepath.Base(dir), all)
	if err != nil {
		return nil, fmt.Errorf("writing the arguments of the kernels in %s: %w", dir, err)
	}
	return text, nil
}

// parseKernels finds the kernels of a file. It expands macros without parameters in parameter lists. A macro that
// defines a kernel counts as one kernel, with the parameter list of all kernels that the macro makes.
func parseKernels(file, text string) ([]kernel, error) {
	text = comment.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "")
	constants, macros := map[string]string{}, map[string]string{}
	for _, d := range define.FindAllStringSubmatch(text, -1) {
		if d[2] == "" {
			constants[d[1]] = d[3]
		} else if h := head.FindStringSubmatch(d[3]); h != nil {
			macros[h[1]] = d[1]
		}
	}
	var out []kernel
	for _, h := range head.FindAllStringSubmatch(text, -1) {
		k := kernel{file: file, name: h[1]}
		if macro := macros[h[1]]; macro != "" {
			k.name = strings.ToLower(macro)
		}
		list := word.ReplaceAllStringFunc(h[2], func(w string) string {
			if c, ok := constants[w]; ok {
				return c
			}
			return w
		})
		for _, p := range strings.Split(list, ",") {
			one, err := readParam(strings.Join(strings.Fields(strings.ReplaceAll(p, "*", " * ")), " "))
			if err != nil {
				return nil, fmt.Errorf("%s: kernel %s: %w", file, h[1], err)
			}
			k.params = append(k.params, one)
		}
		if last := k.params[len(k.params)-1]; last.kind != "I" {
			return nil, fmt.Errorf("%s: kernel %s: its last parameter, %s, is not the number of items", file, h[1], last.name)
		}
		k.params = k.params[:len(k.params)-1]
		out = append(out, k)
	}
	return out, nil
}

func readParam(text string) (param, error) {
	if m := pointer.FindStringSubmatch(text); m != nil {
		return param{"B", m[1]}, nil
	}
	m := value.FindStringSubmatch(text)
	if m == nil {
		return param{}, fmt.Errorf("parameter %q is no pointer, int or float", text)
	}
	return param{map[string]string{"int": "I", "float": "F"}[m[1]], m[2]}, nil
}

func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	if s := strings.Join(parts, ""); !token.IsKeyword(s) {
		return s
	}
	return strings.Join(parts, "") + "Of"
}

// writeFile returns the Go text for a folder's kernels. Kernels with equal lists share the struct of the first.
func writeFile(pkg string, kernels []kernel) ([]byte, error) {
	byList := map[string][]kernel{}
	for _, k := range kernels {
		key := fmt.Sprint(k.params)
		byList[key] = append(byList[key], k)
	}
	lists := slices.SortedFunc(maps.Values(byList), func(a, b []kernel) int { return strings.Compare(a[0].name, b[0].name) })
	var b, types bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by scripts/build/kernelargs from the .cu files; DO NOT EDIT.\n\npackage %s\n\n", pkg)
	b.WriteString("import \"github.com/gpuprof/gpuprof/workloads/device\"\n\n")
	b.WriteString("// Args are the arguments of a launch, and a View has them as the kernel's host code reads them.\ntype (\n")
	for _, list := range lists {
		name := camelCase(list[0].name)
		fmt.Fprintf(&types, "\n// %sParams are the parameters of %s.\ntype %sParams[B, I, F any] struct {\n%s}\n", name, kernelNames(list), name, fieldNames(list[0].params))
		for _, k := range list {
			n := camelCase(k.name)
			fmt.Fprintf(&b, "\t%sArgs = %sParams[device.Ref, device.Num, device.Real]\n", n, name)
			if n == name {
				fmt.Fprintf(&b, "\t%sView = %sParams[device.Mem, device.Int32, device.Float32]\n", n, name)
			}
		}
	}
	b.WriteString(")\n")
	b.Write(types.Bytes())
	return format.Source(b.Bytes())
}

func kernelNames(list []kernel) string {
	var out []string
	for _, k := range list {
		out = append(out, k.name)
	}
	return strings.Join(out, ", ") + " (" + list[0].file + ")"
}

// fieldNames lists parameters in order, with consecutive ones of the same kind on one line.
func fieldNames(params []param) string {
	var b strings.Builder
	width := 0
	for i, p := range params {
		n := camelCase(p.name)
		switch {
		case i > 0 && params[i-1].kind == p.kind && width+len(n) < 90:
			fmt.Fprintf(&b, ", %s", n)
			width += len(n) + 2
		default:
			if i > 0 {
				fmt.Fprintf(&b, " %s\n", params[i-1].kind)
			}
			b.WriteString("\t" + n)
			width = len(n)
		}
	}
	if len(params) > 0 {
		fmt.Fprintf(&b, " %s\n", params[len(params)-1].kind)
	}
	return b.String()
}
