package tpgen

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// File is a generated source NAME.cu, which git ignores. The PTX compiled from it is in git, as NAME.ptx.zst in the
// folder of package op.
type File struct{ Name, Text string }

// Files returns the sources of all families.
func Files() ([]File, error) {
	all := Families()
	grad := slices.DeleteFunc(slices.Clone(all), func(f Family) bool { return f.GradRoom == 0 })
	features := slices.DeleteFunc(slices.Clone(all), func(f Family) bool { return f.XRoom == 0 })
	var out []File
	for _, add := range []func([]File) ([]File, error){
		appendSources("gen", all, Source), appendSources("gengrad", grad, GradSource), appendSources("gengradx", features, XSource),
	} {
		var err error
		if out, err = add(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendSources[P any](kind string, families []Family, source func(Family) (string, []P, error)) func([]File) ([]File, error) {
	return func(all []File) ([]File, error) {
		for _, f := range families {
			text, _, err := source(f)
			if err != nil {
				return nil, fmt.Errorf("generating %s of %s: %w", kind, f.Name, err)
			}
			all = append(all, File{"tensorproduct_" + kind + "_" + f.Name, text})
		}
		return all, nil
	}
}

// Sums returns the text of generated.sha256, in the format of sha256sum: a line for every source, and one for the PTX
// compiled from it. The argument ptx returns the PTX by name. The file lets a test compare generator and PTX without a
// compiler.
func Sums(files []File, ptx func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for _, f := range files {
		made, err := ptx(f.Name)
		if err != nil {
			return "", fmt.Errorf("reading the PTX of %s: %w", f.Name, err)
		}
		fmt.Fprintf(&b, "%x  %s.cu\n%x  %s.ptx\n", sha256.Sum256([]byte(f.Text)), f.Name, sha256.Sum256([]byte(made)), f.Name)
	}
	return b.String(), nil
}
