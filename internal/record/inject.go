package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// CUDAUse says when the CUDA recorder records the program.
type CUDAUse int

// Values of CUDAUse.
const (
	CUDAAuto   CUDAUse = iota // programs that are not PyTorch, where a libcupti is found
	CUDAAlways                // fail where none is found
	CUDANever
)

// ProgramsCUPTI given for a path says that the program brings a libcupti itself.
const ProgramsCUPTI = "program"

// Names in the folder of a recording: what the recorder reads and writes there.
const (
	cudaConfig  = "cuda.config"
	cudaControl = "cuda.control"
	cudaStatus  = "cuda.jsonl"
	cudaLibrary = "gpuprof-cuda.so"
)

// Variables of the recorder. The driver and NVTX load what theirs name.
const (
	envCUDA       = "GPUPROF_CUDA"
	envInjection  = "CUDA_INJECTION64_PATH"
	envInjectNVTX = "NVTX_INJECTION64_PATH"
)

// injection is the recorder as it lies on disk for one run.
type injection struct {
	dir     string // of the recording, absolute
	library string
	scratch string // a folder of its own for the library, "" none
}

// writeInjection puts the recorder into the folder of the recording.
func writeInjection(o *Options, cupti []string) (*injection, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder %s: %w", o.Dir, err)
	}
	in := &injection{dir: dir}
	var config strings.Builder
	if o.Rolling { // the recorder begins the next recording where one reached its limit
		fmt.Fprintf(&config, "max_mb=%d\nmax_s=%d\n", rollMB, int(LiveStretch.Seconds()))
	}
	config.WriteString(o.RecorderConfig)
	if o.CUDA == CUDAAlways {
		config.WriteString("torch=1\n")
	}
	if o.Idle || o.Rolling {
		config.WriteString("idle=1\n")
	}
	if o.Graphs == "whole" {
		config.WriteString("graphs=1\n")
	}
	if o.CUPTI != "" && o.CUPTI != ProgramsCUPTI {
		config.WriteString("only=1\n")
	}
	for _, path := range cupti {
		if !strings.ContainsAny(path, "\n\x00") {
			config.WriteString("cupti=" + path + "\n")
		}
	}
	err = outside.WriteFile(filepath.Join(dir, cudaConfig), []byte(config.String()), 0o600)
	if err == nil && o.Rolling {
		err = control(dir, controlRecord)
	}
	if err == nil {
		err = in.placeLibrary()
	}
	if err != nil {
		return nil, errors.Join(gpuprof.Errorf(nil, "writing the CUDA recorder: %w", err).WithFix("choose another folder with -o"), in.remove())
	}
	return in, nil
}

// placeLibrary writes the library where programs may run it: beside the recording, or
// elsewhere when that is mounted noexec.
func (in *injection) placeLibrary() error {
	var errs []error
	for _, dir := range append([]string{in.dir}, elsewhere()...) {
		at := dir
		if dir != in.dir {
			made, err := os.MkdirTemp(dir, "gpuprof-cuda-")
			if err != nil {
				errs = append(errs, err)
				continue
			}
			at = made
		}
		path := filepath.Join(at, cudaLibrary)
		err := outside.WriteFile(path, injectLibrary, 0o700)
		if err == nil {
			err = mayMap(path)
		}
		if err == nil {
			if in.library = path; at != in.dir {
				in.scratch = at
			}
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, unwrapPath(err)), os.Remove(path))
		if at != in.dir {
			_ = os.Remove(at) // a leftover is only untidy
		}
	}
	return errors.Join(errs...)
}

// elsewhere are folders that may allow what the recording's does not.
func elsewhere() (out []string) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		out = append(out, dir)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		out = append(out, dir)
	}
	return append(out, "/dev/shm", os.TempDir())
}

// environment is env with the recorder in it.
func (in *injection) environment(env []string) []string {
	set := map[string]string{envCUDA: in.dir, envInjection: in.library}
	if lookup(env, envInjectNVTX) == "" {
		set[envInjectNVTX] = in.library
	}
	return with(env, set)
}

// stop asks every process to end its recording.
func (in *injection) stop() error {
	return control(in.dir, controlStop)
}

// remove takes away what is of no use once the program has ended.
func (in *injection) remove() error {
	var errs []error
	for _, path := range []string{filepath.Join(in.dir, cudaConfig), filepath.Join(in.dir, cudaControl), in.library} {
		if path == "" {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if in.scratch != "" {
		errs = append(errs, os.Remove(in.scratch))
	}
	return errors.Join(errs...)
}
