// Package machinecode holds the machine code of the program's kernels, made by NVIDIA's assembler for the most common
// GPU generations. A driver loads it without its own compiler, which takes seconds at a kernel's first use.
//
// The archive is a tar file compressed with zstd: sm_90/HASH is the machine code (a cubin) of the PTX with that
// SHA-256. scripts/build/ptxas.sh makes the archive, and checks it in CI.
package machinecode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Archs are the generations in the archive. Machine code runs on GPUs with the same major compute capability and an
// equal or higher minor one (CUDA programming guide, binary compatibility).
var Archs = [...]string{"sm_80", "sm_90", "sm_100"}

// Name returns the path in the archive for the machine code of a PTX text.
func Name(arch, ptx string) string {
	sum := sha256.Sum256([]byte(ptx))
	return path.Join(arch, hex.EncodeToString(sum[:]))
}

// For returns machine code of a PTX text for a GPU such as "sm_86", if this build has it.
func For(ptx, gpu string) (code []byte, arch string, found bool) {
	arch = archOf(gpu)
	if arch == "" || len(archive) == 0 {
		return nil, "", false
	}
	code, found = unpackArch(arch)[Name(arch, ptx)]
	return code, arch, found
}

// archOf returns the generation in the archive whose code runs on a GPU, or "" if there is none.
func archOf(gpu string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(gpu, "sm_"))
	if err != nil {
		return ""
	}
	for _, arch := range Archs {
		if least, _ := strconv.Atoi(strings.TrimPrefix(arch, "sm_")); n/10 == least/10 && n >= least {
			return arch
		}
	}
	return ""
}

var (
	mu    sync.Mutex
	byGPU = map[string]map[string][]byte{}
)

// unpackArch returns the archive's code of one generation, about 2 MB, and caches it.
func unpackArch(arch string) map[string][]byte {
	mu.Lock()
	defer mu.Unlock()
	if all, known := byGPU[arch]; known {
		return all
	}
	all, err := Read(archive, arch+"/")
	if err != nil {
		all = nil // the driver then compiles the PTX; TestArchive checks the archive
	}
	byGPU[arch] = all
	return all
}

// Read unpacks an archive and returns the files whose names begin with the argument below, by name.
func Read(packed []byte, below string) (map[string][]byte, error) {
	unpack, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpacking the kernels' machine code: %w", err)
	}
	defer unpack.Close()
	all := map[string][]byte{}
	for files := tar.NewReader(unpack); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err == nil && strings.HasPrefix(h.Name, below) {
			all[h.Name], err = io.ReadAll(files)
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking the kernels' machine code: %w", err)
		}
	}
}
