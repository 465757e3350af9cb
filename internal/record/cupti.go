package record

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// CUPTI is an installed libcupti.
type CUPTI struct {
	Path string
	// CUDA is the library's CUDA release: 1000 * major + 10 * minor, as in the driver's API; 0 if unknown.
	CUDA int
}

// Release formats the CUDA release, such as "12.8"; "" if unknown.
func (c CUPTI) Release() string {
	if c.CUDA == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", c.CUDA/1000, c.CUDA%1000/10)
}

// releaseOf returns the CUDA release (1000 * major + 10 * minor) of a version of CUPTI's interface; 0 if unknown. From
// 13.0 the version contains the release. Up to 12.9 the interface has its own numbers; if several releases share one,
// releaseOf returns the last of them.
func releaseOf(version int) int {
	switch v := version; {
	case v >= 130000:
		return v/10000*1000 + v/100%100*10
	case v < 17:
		return 0 // older than the recorder supports
	case v == 17:
		return 11070
	case v == 18:
		return 12000
	}
	return map[int]int{19: 12010, 20: 12020, 21: 12030, 22: 12040, 23: 12050, 24: 12060, 25: 12070, 26: 12080, 27: 12090, 28: 12090}[version]
}

// ReleaseOf formats the CUDA release of a version of CUPTI's interface; "" if unknown.
func ReleaseOf(version int) string { return CUPTI{CUDA: releaseOf(version)}.Release() }

// CanCUDA reports whether this build has the CUDA recorder.
func CanCUDA() bool { return len(injectLibrary) > 0 }

// FindCUPTI searches the folders of CUDA and of NVIDIA's Python packages for libcupti. ask loads a library in a
// separate process and returns its interface version; with nil, libraries of unknown release are returned too. driver
// is the driver's CUDA release, 0 if unknown. The order is: releases up to the driver's, newest first, then newer ones,
// oldest first. searched lists the folders.
func FindCUPTI(env []string, program string, driver int, ask func(path string) (version int, err error)) (found []CUPTI, searched []string) {
	seen := map[string]bool{}
	for _, dir := range cuptiFolders(env, program) {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		searched = append(searched, dir)
		for _, path := range cuptiIn(dir) {
			real, err := filepath.EvalSymlinks(path)
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			c := CUPTI{Path: path}
			if ask != nil {
				version, err := ask(path)
				if err != nil || releaseOf(version) == 0 {
					continue
				}
				c.CUDA = releaseOf(version)
			}
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b CUPTI) int {
		newer := func(c CUPTI) bool { return driver > 0 && c.CUDA > driver }
		switch {
		case newer(a) != newer(b):
			return map[bool]int{true: 1, false: -1}[newer(a)]
		case newer(a): // of the releases that are too new, the oldest first
			return cmp.Compare(a.CUDA, b.CUDA)
		}
		return cmp.Compare(b.CUDA, a.CUDA)
	})
	return found, searched
}

func cuptiIn(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "libcupti.so.*")) // the pattern is well formed
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(b, a)) })
	return found
}

func cuptiFolders(env []string, program string) (out []string) {
	each := func(patterns ...string) {
		for _, p := range patterns {
			dirs, _ := filepath.Glob(p) // a folder name that is no valid pattern matches nothing
			slices.Reverse(dirs)        // the newest release first, by name
			for _, dir := range dirs {
				if isFolder(dir) {
					out = append(out, dir)
				}
			}
		}
	}
	toolkit := func(root string) {
		each(filepath.Join(root, "extras", "CUPTI", "lib64"), filepath.Join(root, "targets", "*", "lib"), filepath.Join(root, "lib64"))
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"} {
		if root := lookup(env, name); root != "" {
			toolkit(root)
		}
	}
	for _, python := range []string{program, "python", "python3"} {
		if path, err := exec.LookPath(python); err == nil {
			each(pythonFolders(path)...)
		}
	}
	if root := lookup(env, "CONDA_PREFIX"); root != "" {
		each(filepath.Join(root, "lib"))
	}
	for _, dir := range filepath.SplitList(lookup(env, "LD_LIBRARY_PATH")) {
		each(dir)
	}
	toolkit("/usr/local/cuda*")
	each("/opt/nvidia/hpc_sdk/Linux_*/*/cuda/*/extras/CUPTI/lib64", "/opt/cuda/extras/CUPTI/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")
	if home, err := os.UserHomeDir(); err == nil {
		each(filepath.Join(home, ".julia", "artifacts", "*", "lib"))
	}
	return out
}

// pythonFolders lists the folders of NVIDIA's packages for a Python interpreter.
func pythonFolders(path string) (out []string) {
	if !isPythonName(path) {
		return nil
	}
	for _, root := range []string{path, func() string { real, _ := filepath.EvalSymlinks(path); return real }()} {
		if root == "" {
			continue
		}
		site := filepath.Join(filepath.Dir(filepath.Dir(root)), "lib", "python3*", "site-packages", "nvidia")
		out = append(out, filepath.Join(site, "cu13", "lib"), filepath.Join(site, "cuda_cupti", "lib"))
	}
	return out
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// SilentCUPTI returns the first libcupti in the searched folders, or "". It does not ask for a version, since libcupti
// 13.3 and later report none on a machine without a driver.
func SilentCUPTI(searched []string) string {
	for _, dir := range searched {
		if found := cuptiIn(dir); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// missingCUPTI returns a text and a fix for a missing libcupti; searched lists the searched folders.
func missingCUPTI(searched []string) (text, fix string) {
	if path := SilentCUPTI(searched); path != "" {
		return "no libcupti answers when it is asked for its version: " + path + " does not, as without an NVIDIA driver, or with one that is too old for it",
			"check the driver with nvidia-smi, or name another libcupti with --cupti PATH"
	}
	where := "no folder of CUDA was there to look in"
	if len(searched) > 0 {
		const shown = 6
		more := ""
		if len(searched) > shown {
			more = fmt.Sprintf(" and %d more folders", len(searched)-shown)
		}
		where = "looked in " + strings.Join(searched[:min(shown, len(searched))], ", ") + more
	}
	return "no libcupti was found (" + where + "): it comes with the CUDA toolkit (extras/CUPTI/lib64) and with pip install nvidia-cuda-cupti-cu12 (for CUDA 13: nvidia-cuda-cupti)",
		"name it with --cupti PATH, or give --cupti program if the program brings one"
}
