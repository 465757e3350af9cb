// Package machinecode holds what NVIDIA's assembler made of the program's kernels for the
// generations of GPUs that most programs run on. A driver loads it without its compiler,
// which takes seconds at the first use of a kernel.
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

// Archs are the generations in the archive. Machine code runs on GPUs of the same major
// compute capability whose minor one is not lower (CUDA programming guide, binary compatibility).
var Archs = [...]string{"sm_80", "sm_90", "sm_100"}

// Name is where the archive has the machine code of a PTX text.
func Name(arch, ptx string) string {
	sum := sha256.Sum256([]byte(ptx))
	return path.Join(arch, hex.EncodeToString(sum[:]))
}

// For is machine code of a PTX text for a GPU ("sm_86"), if this build has some.
func For(ptx, gpu string) (code []byte, arch string, found bool) {
	arch = archOf(gpu)
	if arch == "" || len(archive) == 0 {
		return nil, "", false
	}
	code, found = unpacked(arch)[Name(arch, ptx)]
	return code, arch, found
}

// archOf is the generation of the archive whose code a GPU runs, "" if there is none.
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

// unpacked is the archive's code of one generation, about 2 MB, kept from the first use on.
func unpacked(arch string) map[string][]byte {
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

// Read is what an archive holds below a folder, by name.
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
