package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// sceneTiles has a product of 16-bit matrices with K = 4096 in each step, by a kernel with tiles of 128x128, and after
// it so long a kernel that adds up the parts of K.
func sceneTiles(m, n int, kernel string, blocks, splitNS int64) *scene {
	s := newScene()
	args := recordedArgs(fmt.Sprintf("[%d,4096]", m), fmt.Sprintf("[4096,%d]", n))
	return s.repeat(3, func() {
		s.inKind(model.Op, "aten::mm", args, func() {
			s.kernelOn(7, kernel, 160*us, blocks)
			if splitNS > 0 {
				s.kernel("void cublasLt::splitKreduce_kernel<32, 16, int, float>", splitNS)
			}
		})
	}).end()
}

// Causes of slow products by their grid, on the 108 multiprocessors of an A100.
func TestOffPeakGrids(t *testing.T) {
	const one, parts = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_splitK_stages_32x5_nn"
	for _, c := range []struct {
		name           string
		m, n           int
		kernel         string
		blocks, split  int64
		claim          int64  // of both steady steps
		title, caveats string // parts of them
	}{
		// 160 us times 1 - 120/216
		{"a last round of 12 tiles", 1280, 1536, one, 120, 0, 2 * 71_111, "120 tiles of 128x128 on 108 multiprocessors need 2 rounds, 44 % of which stay empty", "reach on the A100"},
		{"whole rounds", 1536, 2304, one, 216, 0, 0, "", ""},
		{"a grid that is no grid of tiles", 1280, 1536, one, 119, 0, 0, "", ""},
		{"one round", 1280, 1024, one, 80, 0, 0, "", ""},
		// (160 + 20) us less 2·1026·1534·4096 FLOPs at 87 % of 312 TF/s
		{"odd sizes, in parts of K", 1026, 1534, one, 108, 20 * us, 2 * 132_500, "N = 1534", "the sizes fill 89 % of the tiles of 128x128; split-K adds up its parts in a kernel of 20.0 us"},
		// Three blocks for each of 9·12 tiles. Rounds of such blocks are no cause: the claim is that of the sizes.
		{"parts of K in one kernel", 1026, 1534, parts, 324, 20 * us, 2 * 132_500, "N = 1534", "the sizes fill 89 % of the tiles of 128x128; split-K computes each tile of 128x128 in 3 parts; split-K adds up its parts in a kernel of 20.0 us"},
		{"even sizes in parts of K", 1280, 1536, parts, 240, 0, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, sceneTiles(c.m, c.n, c.kernel, c.blocks, c.split).trace())
			for _, f := range a.Findings {
				if f.Rule != "off-peak-gemm" {
					continue
				}
				if d := f.ClaimNS - c.claim; c.claim == 0 || d < -100 || d > 100 {
					t.Errorf("claims %d ns, want %d", f.ClaimNS, c.claim)
				}
				if all := strings.Join(f.Caveats, ". "); !strings.Contains(f.Title, c.title) || !strings.Contains(all, c.caveats) {
					t.Errorf("%q, %q", f.Title, all)
				}
				return
			}
			if c.claim > 0 {
				t.Errorf("no finding among %v", a.Findings)
			}
		})
	}
}
