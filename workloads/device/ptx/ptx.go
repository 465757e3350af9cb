// Package ptx unpacks the PTX of kernels: scripts/build/kernels.sh compiles every .cu to NAME.ptx.zst in the same
// folder, compressed with zstd. gzip would add 0.5 MB to a wheel, whose size is limited.
package ptx

import (
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// magic is the first four bytes of zstd data (RFC 8878, section 3.1.1).
const magic = "\x28\xb5\x2f\xfd"

// unpacked caches texts by their compressed form: unpacking takes milliseconds, and several callers need a text.
var unpacked sync.Map

// Text returns the text of a kernel's PTX. An error means damaged data.
func Text(k *device.Kernel) (string, error) {
	if !strings.HasPrefix(k.PTX, magic) {
		return k.PTX, nil
	}
	if text, known := unpacked.Load(k.PTX); known {
		return text.(string), nil
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	var text []byte
	if err == nil {
		defer z.Close()
		text, err = z.DecodeAll([]byte(k.PTX), nil)
	}
	if err != nil {
		return "", gpuprof.Errorf(nil, "unpacking the PTX of kernel %s: %w", k.Name, err).WithFix("this is a fault in gpuprof, please report it")
	}
	kept, _ := unpacked.LoadOrStore(k.PTX, string(text))
	return kept.(string), nil
}
