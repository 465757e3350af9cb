// Package machinecode holds the machine code that NVIDIA's assembler made of the program's kernels, for the most
// common generations of GPUs. A driver loads it without its own compiler, which takes seconds at the first use of a
// kernel.
//
// The file is a tar archive, compressed with zstd: sm_90/HASH is the machine code (a cubin)
// of the PTX with that SHA-256. scripts/build/ptxas.sh makes it, and compares it in CI.
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

// Archs are the generations in the archive. Machine code runs on GPUs of the same major compute capability and an
// equal or higher minor one (CUDA programming guide, binary compatibility).
var Archs = [...]string{"sm_80", "sm_90", "sm_100"}

// Name returns the path in the archive of the machine code of a PTX text.
func Name(arch, ptx string) string {
	sum := sha256.Sum256([]byte(ptx))
	return path.Join(arch, hex.EncodeToString(sum[:]))
}

// For returns machine code of a PTX text for a GPU ("sm_86"), if this build carries some.
func For(ptx, gpu string) (code []byte, arch string, found bool) {
	arch = archOf(gpu)
	if arch == "" || len(archive) == 0 {
		return nil, "", false
	}
	code, found = unpackArch(arch)[Name(arch, ptx)]
	return code, arch, found
}

// archOf returns the archive's generation whose code a GPU runs, "" if there is none.
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

// unpackArch returns the archive's code of one generation, about 2 MB, cached after the first use.
func unpackArch(arch string) map[string][]byte {
	mu.Lock()
	defer mu.Unlock()
	if all, known := byGPU[arch]; known {
		return all
	}
	all, err := Read(archive, arch+"/")
	if err != nil {
		all = nil // TestArchive reads every byte of it; the driver compiles the PTX
	}
	byGPU[arch] = all
	return all
}

// Read returns the contents of an archive's files below a folder, by name.
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
