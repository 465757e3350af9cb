// Command pack checks or writes workloads/device/cuda/machinecode/code.tar.zst, in the repository's root. Without
// arguments it checks that every PTX of the program has machine code in the archive. -check FOLDER compares the
// archive with a folder of ARCH/NAME.ptx and ARCH/NAME.cubin made by scripts/build/ptxas.sh; -write FOLDER makes the
// archive from it.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda/machinecode"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

const file = "workloads/device/cuda/machinecode/code.tar.zst"

var errStale = gpuprof.Errorf(nil, "the kernels' machine code is not that of their PTX").WithFix("run make kernels")

func main() {
	check, write := flag.String("check", "", "compare with this folder"), flag.String("write", "", "make the archive from this folder")
	flag.Parse()
	if err := run(*check, *write); err != nil {
		fmt.Fprintf(os.Stderr, "machinecode: %v\n", err)
		os.Exit(1)
	}
}

func run(check, write string) error {
	if write != "" {
		made, err := readAssembled(write)
		if err != nil {
			return err
		}
		return writeArchive(made)
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		return gpuprof.Errorf(nil, "reading the machine code: %w", err).WithFix("run make kernels")
	}
	have, err := machinecode.Read(packed, "")
	if err != nil {
		return err
	}
	if check == "" {
		return checkFresh(have)
	}
	made, err := readAssembled(check)
	if err != nil {
		return err
	}
	if !maps.EqualFunc(have, made, bytes.Equal) {
		return errStale
	}
	fmt.Printf("machinecode: %s holds the %d files that were assembled\n", file, len(made))
	return nil
}

// readAssembled reads the assembler's files in a folder, and returns them by their names in the archive.
func readAssembled(folder string) (map[string][]byte, error) {
	made := map[string][]byte{}
	for _, arch := range machinecode.Archs {
		list, err := filepath.Glob(filepath.Join(folder, arch, "*.ptx"))
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("reading machine code for %s: no PTX in %s", arch, filepath.Join(folder, arch))
		}
		for _, ptx := range list {
			text, err := os.ReadFile(ptx)
			if err != nil {
				return nil, err
			}
			code, err := os.ReadFile(strings.TrimSuffix(ptx, ".ptx") + ".cubin")
			if err != nil {
				return nil, err
			}
			made[machinecode.Name(arch, string(text))] = code
		}
	}
	return made, nil
}

// writeArchive writes the archive. Its bytes may change with the compressor's version, so checks compare the contents.
// Machine code of the same PTX for all generations is adjacent in it, because it then compresses well.
func writeArchive(made map[string][]byte) error {
	var raw bytes.Buffer
	out := tar.NewWriter(&raw)
	names := slices.SortedFunc(maps.Keys(made), func(a, b string) int {
		if c := strings.Compare(filepath.Base(a), filepath.Base(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(made[name])), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := out.Write(made[name]); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	// A window of 8 MB, which a decoder must allocate, covers the whole archive.
	zstd := exec.Command("zstd", "--ultra", "-22", "--zstd=wlog=23", "--quiet", "--stdout")
	zstd.Stdin, zstd.Stderr = &raw, os.Stderr
	packed, err := zstd.Output()
	if err != nil {
		return gpuprof.Errorf(nil, "packing the machine code with zstd: %w", err).WithFix("install the package zstd")
	}
	fmt.Printf("machinecode: wrote %s, %d bytes\n", file, len(packed))
	return os.WriteFile(file, packed, 0o644)
}

// checkFresh compares the names in the archive with those for the PTX files below workloads and internal.
func checkFresh(have map[string][]byte) error {
	want := map[string]bool{}
	for _, root := range []string{"workloads", "internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".ptx.zst") || strings.Contains(filepath.ToSlash(path), "/testdata/") {
				return err
			}
			packed, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text, err := ptx.Text(&device.Kernel{Name: path, PTX: string(packed)})
			if err != nil {
				return err
			}
			for _, arch := range machinecode.Archs {
				want[machinecode.Name(arch, text)] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for name := range want {
		if have[name] == nil {
			return errStale
		}
	}
	if len(have) != len(want) {
		return errStale
	}
	return nil
}
