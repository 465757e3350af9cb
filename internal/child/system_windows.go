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

// errWindows is the error of every function: programs are ended by process group, which Windows lacks.
var errWindows = gpuprof.Errorf(nil, "not supported on windows: a program cannot be ended together with all it started").WithFix("use Linux, macOS or WSL")

func supported() error { return errWindows }

func kill(int, syscall.Signal) error { return errWindows }

func lock(*os.File) error { return errWindows }

func newGroup() *syscall.SysProcAttr { return nil }

func liveProcesses(string, int, uint64) []int { return nil }

func hasSetting(string) bool { return false }
