// Command gen writes the CUDA sources of the generated tensor products beside
// package op; go generate runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

func run(dir string) error {
	for _, f := range tpgen.Families() {
		text, _, err := tpgen.Source(f)
		if err != nil {
			return fmt.Errorf("generating %s: %w", f.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tensorproduct_gen_"+f.Name+".cu"), []byte(text), 0o644); err != nil {
			return err
		}
		if f.GradRoom > 0 {
			if text, _, err = tpgen.GradSource(f); err != nil {
				return fmt.Errorf("generating the gradients of %s: %w", f.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "tensorproduct_gengrad_"+f.Name+".cu"), []byte(text), 0o644); err != nil {
				return err
			}
		}
		if f.XRoom > 0 {
			if text, _, err = tpgen.XSource(f); err != nil {
				return fmt.Errorf("generating the gradient by features of %s: %w", f.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "tensorproduct_gengradx_"+f.Name+".cu"), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	for _, f := range tpgen.MMAFamilies() {
		text, _, err := tpgen.MMASource(f)
		if err != nil {
			return fmt.Errorf("generating %s for the tensor cores: %w", f.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tensorproduct_mma_"+f.Name+".cu"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
