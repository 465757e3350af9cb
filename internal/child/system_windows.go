package child

import (
	"os"
	"syscall"

	"github.com/gpuprof/gpuprof"
)

const (
	resume  = syscall.Signal(0)
	seesAll = false
)

// errWindows is what every use of this package ends with: a program and all it
// started are ended by their process group, which Windows does not have.
var errWindows = gpuprof.Errorf(nil, "not supported on windows: a program cannot be ended together with all it started").WithFix("use Linux, macOS or WSL")

func supported() error { return errWindows }

func kill(int, syscall.Signal) error { return errWindows }

func lock(*os.File) error { return errWindows }

func ownGroup() *syscall.SysProcAttr { return nil }

func alive(string, int) []int { return nil }

func inEnvironment(string) bool { return false }
