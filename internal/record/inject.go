package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// CUDAUse selects the programs that the CUDA recorder records.
type CUDAUse int

// Values of CUDAUse.
const (
	CUDAAuto   CUDAUse = iota // record programs other than PyTorch, if a libcupti is found
	CUDAAlways                // return an error if no libcupti is found
	CUDANever
)

// ProgramsCUPTI in place of a path means that the program ships its own libcupti.
const ProgramsCUPTI = "program"

// Names of the recorder's files in the folder of a recording.
const (
	cudaConfig  = "cuda.config"
	cudaControl = "cuda.control"
	cudaStatus  = "cuda.jsonl"
	cudaLibrary = "gpuprof-cuda.so"
)

// Environment variables of the recorder. The CUDA driver and NVTX load the libraries that envInjection and
// envInjectNVTX name.
const (
	envCUDA       = "GPUPROF_CUDA"
	envInjection  = "CUDA_INJECTION64_PATH"
	envInjectNVTX = "NVTX_INJECTION64_PATH"
)

// injection is the CUDA recorder on disk for one run.
type injection struct {
	dir     string // folder of the recording, absolute
	library string
	scratch *child.Scratch // files to remove once the program has ended
}

// writeInjection writes the recorder's settings and library into the folder of the recording.
func writeInjection(o *Options, cupti []string) (*injection, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder %s: %w", o.Dir, err)
	}
	in := &injection{dir: dir}
	if in.scratch, err = child.NewScratch("cuda"); err == nil {
		err = in.scratch.Outlives(in.environEntry(), filepath.Join(dir, cudaConfig), filepath.Join(dir, cudaControl))
	}
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the CUDA recorder: %w", err).WithFix("point TMPDIR to one that takes files")
	}
	var config strings.Builder
	if o.Rolling { // at the limit of a file the recorder begins the next one
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
		err = writeControl(dir, controlRecord)
	}
	if err == nil {
		err = in.placeLibrary()
	}
	if err != nil {
		in.scratch.Close()
		return nil, gpuprof.Errorf(nil, "writing the CUDA recorder: %w", err).WithFix("choose another folder with -o")
	}
	return in, nil
}

// placeLibrary writes the library into the recording's folder, or elsewhere if that folder is mounted noexec.
func (in *injection) placeLibrary() error {
	var errs []error
	for _, dir := range append([]string{in.dir}, fallbackFolders()...) {
		at := dir
		if dir != in.dir {
			at = filepath.Join(dir, owner.TempName("gpuprof-cuda", ""))
		}
		path := filepath.Join(at, cudaLibrary)
		err := in.writeLibrary(at, path)
		if err == nil {
			in.library = path
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, unwrapPath(err)), os.Remove(path))
		if at != in.dir {
			_ = os.Remove(at)
		}
	}
	return errors.Join(errs...)
}

func (in *injection) writeLibrary(dir, path string) error {
	files := []string{path}
	if dir != in.dir {
		files = append(files, dir)
	}
	if err := in.scratch.Outlives(in.environEntry(), files...); err != nil {
		return err
	}
	if dir != in.dir {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := outside.WriteFile(path, injectLibrary, 0o700); err != nil {
		return err
	}
	return mayMap(path)
}

// environEntry returns the environment entry that marks programs of this recording.
func (in *injection) environEntry() string { return envCUDA + "=" + in.dir }

// fallbackFolders lists folders for the library if the recording's folder forbids execution.
func fallbackFolders() (out []string) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		out = append(out, dir)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		out = append(out, dir)
	}
	return append(out, "/dev/shm", os.TempDir())
}

func (in *injection) environWithRecorder(env []string) []string {
	set := map[string]string{envCUDA: in.dir, envInjection: in.library}
	if lookup(env, envInjectNVTX) == "" {
		set[envInjectNVTX] = in.library
	}
	return setEnviron(env, set)
}

// noteProgram registers the process that uses the library, whose files are removed after the process has ended.
func (in *injection) noteProgram(pid int) {
	_ = in.scratch.Program(pid) // the process's environment names the folder as well
}
