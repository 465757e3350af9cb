// Command gen writes the CUDA sources of the generated tensor products into the folder of package op, where git
// ignores them; go generate runs it. With -sums it writes generated.sha256 there, from the sources and their PTX.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

func run(dir string, sums bool) error {
	files, err := tpgen.Files()
	if err != nil {
		return err
	}
	if sums {
		text, err := tpgen.Sums(files, func(name string) (string, error) {
			packed, err := os.ReadFile(filepath.Join(dir, name+".ptx.zst"))
			if err != nil {
				return "", err
			}
			return ptx.Text(&device.Kernel{Name: name, PTX: string(packed)})
		})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "generated.sha256"), []byte(text), 0o644)
	}
	for _, kind := range []string{"gen", "gengrad", "gengradx"} { // remove sources of families that exist no more
		old, err := filepath.Glob(filepath.Join(dir, "tensorproduct_"+kind+"_*.cu"))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name+".cu"), []byte(f.Text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	sums := flag.Bool("sums", false, "write generated.sha256")
	dir := flag.String("dir", "..", "the folder of package op")
	flag.Parse()
	if err := run(*dir, *sums); err != nil {
		fmt.Fprintln(os.Stderr, "tpgen:", err)
		os.Exit(1)
	}
}
