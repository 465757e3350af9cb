package op

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

var updateRoots = flag.Bool("update", false, "write sph_roots.cuh again")

// The roots that sph.cu has as constants are those of the host's table; row l has m = 0 to l.
func TestSphRoots(t *testing.T) {
	var s strings.Builder
	s.WriteString("// The constants of sph.cu (see sph_host.go), written by go test ./workloads/op -run TestSphRoots -update; do not edit.\n#pragma once\n")
	fmt.Fprintf(&s, "#define SPH_DEGREES %d // so3.MaxL + 1\n", so3.MaxL+1)
	table := func(name string, n int, at func(i int) float64) {
		fmt.Fprintf(&s, "__constant__ double %s[%d] = {", name, n)
		for i := range n {
			if i%8 == 0 {
				s.WriteString("\n ")
			}
			fmt.Fprintf(&s, " %x,", at(i))
		}
		s.WriteString("\n};\n")
	}
	const n = so3.MaxL + 1
	table("sph_start", n, func(i int) float64 { return sphConst.start[i] })
	table("sph_a", n*n, func(i int) float64 { return sphConst.a[i/n][i%n] })
	table("sph_b", n*n, func(i int) float64 { return sphConst.b[i/n][i%n] })
	if *updateRoots {
		if err := os.WriteFile("sph_roots.cuh", []byte(s.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("sph_roots.cuh"); err != nil || string(got) != s.String() {
		t.Errorf("sph_roots.cuh is not the table of sph_host.go (%v); run go test ./workloads/op -run TestSphRoots -update", err)
	}
}

// A warp writes its rows together, as vectors, in two loops of which four rounds are written out, and one scalar loop writes
// what is left of the last warp. Rows of an odd width are read as vectors, too. Each degree has one root, the length of a vector.
func TestSphStoresTogether(t *testing.T) {
	text := textOf(t, &sphKernel)
	for what, want := range map[string]int{"st.global.v4.f32": 10, "ld.shared.v4.f32": 5, "st.global.f32": 1, "sqrt.rn.f64": 4, "st.shared.u8": 0, "bar.sync": 0} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%d times %s in the PTX of sph, expected %d", got, what, want)
		}
	}
}
