package main

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// Three loops in each other, as nvdisasm prints them. The innermost is entered past a
// jump, leaves for a place behind the kernel's end, and comes back into its middle:
// that makes no loop of all that lies between.
const listing = `
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
.L_x_0:
        /*0020*/                   FMUL R2, R3, R4 ;
        /*0030*/                   STS [R2], R3 ;
.L_x_1:
        /*0040*/                   LDS R5, [R6] ;
        /*0050*/               @P1 BRA ` + "`(.L_x_3)" + ` ;
.L_x_2:
        /*0060*/                   FFMA R7, R8, R9, R7 ;
        /*0070*/                   BRA.DIV UR4, ` + "`(.L_x_5)" + ` ;
        /*0080*/                   SHFL.IDX PT, R5, R6, R7, 0x1f ;
.L_x_4:
        /*0090*/                   FADD R7, R8, R9 ;
        /*00a0*/              @!P2 BRA ` + "`(.L_x_2)" + ` ;
.L_x_3:
        /*00b0*/                   STG.E [R2.64], R7 ;
        /*00c0*/               @P3 BRA ` + "`(.L_x_1)" + ` ;
        /*00d0*/               @P4 BRA ` + "`(.L_x_0)" + ` ;
        /*00e0*/                   EXIT ;
.L_x_5:
        /*00f0*/                   WARPSYNC.COLLECTIVE R10, ` + "`(.L_x_6)" + ` ;
.L_x_6:
        /*0100*/                   BRA ` + "`(.L_x_4)" + ` ;
.L_x_7:
        /*0110*/                   BRA ` + "`(.L_x_7)" + `;
`

func TestParts(t *testing.T) {
	c, err := read(strings.NewReader(listing))
	if err != nil {
		t.Fatal(err)
	}
	found := c.findParts()
	// The innermost: 5 instructions and the 2 behind the end. Around it: LDS, the jump past it,
	// STG and the jump back; around that FMUL, STS and the jump back.
	want := part{math: 2, edge: 7, build: 3, row: 4}
	if len(found) != 1 || found[0] != want {
		t.Errorf("found %+v, expected %+v", found, want)
	}
}

func TestTotal(t *testing.T) {
	spec, parts, err := tpgen.Source(tpgen.Families()[0])
	if err != nil || spec == "" {
		t.Fatal(err)
	}
	found, warps, shares := make([]part, len(parts)), make([]float64, len(parts)), make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{p.Math(), 0, p.Batch}
		found[len(parts)-1-i] = part{math: p.Math(), edge: 10, build: p.Batch, row: 1}
		warps[i] = 2
	}
	got, err := matchParts(shares, found, warps)
	if n := float64(len(parts)); err != nil || got != (count{20 * n, 2 * n, 2 * n}) {
		t.Errorf("%+v (%v) of %d parts", got, err, len(parts))
	}
	found[0].math++
	if _, err := matchParts(shares, found, warps); err == nil {
		t.Error("a loop with one product more than its part was accepted")
	}
}

func TestWithin(t *testing.T) {
	sums := map[string]count{"a:1": {edge: 100, build: 10}}
	for text, ok := range map[string]bool{"a:1=100+0": true, "a:1=90+11": true, "a:1=90+9": false, "b:1=900+9": false, "a:1=x": false} {
		if err := checkLimits([]string{text}, sums); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
