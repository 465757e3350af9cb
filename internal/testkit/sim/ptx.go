package sim

import (
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// PTX returns the decompressed text of a file NAME.ptx.zst.
func PTX(path string) (string, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		return "", err
	}
	defer z.Close()
	text, err := z.DecodeAll(packed, nil)
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", path, err)
	}
	return string(text), nil
}
