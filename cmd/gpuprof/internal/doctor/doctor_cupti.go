package doctor

import (
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/record"
)

// cuptiLine reports the libcupti that the CUDA recorder would load, and whether it fits the driver. driver is the
// driver's CUDA release, 1000 * major + 10 * minor; 0 without a driver.
func cuptiLine(found []record.CUPTI, searched []string, driver int) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "cupti", State: gpuprof.OK}
	if len(found) == 0 {
		l.State, l.Found = gpuprof.Missing, "no libcupti"
		if path := record.SilentCUPTI(searched); path != "" {
			l.Reason = path + " does not answer when it is asked for its version, as without an NVIDIA driver"
			l.Fix = "check the driver with nvidia-smi, or name another libcupti with gpuprof run --cupti PATH"
			return l
		}
		l.Reason = fmt.Sprintf("it is in none of %d folders of CUDA and of Python packages", len(searched))
		l.Fix = "install the CUDA toolkit or nvidia-cuda-cupti-cu12 to record programs that are not PyTorch (gpuprof run --cuda)"
		return l
	}
	l.Found = found[0].Path
	if v := found[0].Release(); v != "" {
		l.Found += ", CUDA " + v
	}
	switch {
	case driver > 0 && found[0].CUDA > driver:
		l.State = gpuprof.Missing
		l.Reason = fmt.Sprintf("it is newer than the driver, which is of CUDA %d.%d", driver/1000, driver%1000/10)
		l.Fix = "install a libcupti that is not newer, such as pip install nvidia-cuda-cupti-cu12, and name it with --cupti"
	case len(found) > 1:
		l.Found += fmt.Sprintf(", and %d more", len(found)-1)
	}
	return l
}

// examineCUPTI returns doctor's line about libcupti; false if there is neither a driver nor a libcupti.
func examineCUPTI(a *cli.App) (gpuprof.CheckLine, bool) {
	driver := a.DriverCUDA()
	found, searched := record.FindCUPTI(os.Environ(), "", driver, a.AskCUPTI)
	return cuptiLine(found, searched, driver), driver > 0 || len(found) > 0
}
