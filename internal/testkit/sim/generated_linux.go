package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// generatedKernels returns the sources of the generated tensor products, by the path that go generate gives them. The
// generator is a separate program, since this package does not import the workloads. It runs once for each content of
// generated.sha256.
func (b *builder) generatedKernels() (map[string]string, error) {
	sums, err := os.ReadFile(filepath.Join(b.root, opFolder, "generated.sha256"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.cache, "generated-"+hash(string(sums)))
	if _, err := os.Stat(dir); err != nil {
		scratch, err := os.MkdirTemp(b.cache, "generating-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		run := exec.Command("go", "run", "./"+opFolder+"/tpgen/gen", "-dir", scratch)
		run.Dir = b.root
		if out, err := run.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("generating the tensor products: %w: %s", err, out)
		}
		if err := os.Rename(scratch, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return nil, err
		}
	}
	texts := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(dir, "*.cu"))
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		texts[filepath.Join(opFolder, filepath.Base(path))] = string(text)
	}
	return texts, err
}
