package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// smNumber and generation find the architecture in names of NVIDIA's kernels: sm80_xmma_gemm_…, cutlass3x_sm90_…,
// ampere_sgemm_….
var (
	smNumber   = lazyregexp.New(`(?:^|[^a-z0-9])(?:sm_?|cutlass_)([5-9]\d|1[0-2]\d)(?:_|x|$)`)
	generation = map[string]int{"volta_": 70, "turing_": 75, "ampere_": 80, "nvjet_": 90}
)

// parseArch returns the least compute capability of a device that can run a kernel of this name (8.0 is 80), 0
// unknown. A kernel runs on the capability for which it is compiled and on later ones.
func parseArch(name string) int {
	s := strings.ToLower(name)
	arch := 0
	for word, n := range generation {
		if strings.HasPrefix(s, word) {
			arch = n
		}
	}
	for _, m := range smNumber.FindAllStringSubmatch(s, -1) {
		n, _ := strconv.Atoi(m[1]) // two or three digits
		arch = max(arch, n)
	}
	return arch
}

// getCapability returns the compute capability of an NVIDIA device, as major*10+minor (80 for 8.0). If the trace does
// not have the capability, the result is the least capability that the device's kernels need, 0 unknown. It returns 0
// for AMD devices, because their traces store the architecture in the capability fields (9.4 for gfx942).
func (c *ruleContext) getCapability(d *ruleDevice) int {
	if c.isAMD(d) {
		return 0
	}
	if n := d.props.Major*10 + d.props.Minor; n > 0 {
		return n
	}
	return d.arch
}

// getArchCaveat returns a caveat for traces that do not describe a GPU: it names the compute capability for which the
// GPU's kernels are compiled. It returns nil if all GPUs are described.
func (c *ruleContext) getArchCaveat() []string {
	least := 0
	for _, d := range c.devices {
		if d.props.Major == 0 && d.arch > 0 && !c.isAMD(d) {
			least = max(least, d.arch)
		}
	}
	if least == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the trace does not describe the GPU: its kernels are compiled for compute capability %d.%d or later", least/10, least%10)}
}
