package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// TestNVRTC compiles a generated product with NVIDIA's own compiler, for every generation
// that both know: the dialect has a header for it that no other compiler here reads. It
// needs no GPU. `make ptxas` fetches the library and names it.
func TestNVRTC(t *testing.T) {
	path := os.Getenv("GPUPROF_NVRTC")
	if path == "" {
		t.Skip("GPUPROF_NVRTC names no libnvrtc.so: NVIDIA's compiler is NOT TRIED; make ptxas does it") //nolint:forbidigo // 90 MB that only make ptxas fetches, and CI runs it
	}
	lib, err := dynlib.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c := new(nvrtc)
	if err := c.startLibrary(lib, path); err != nil {
		t.Fatal(err)
	}
	var headers map[string]string
	for kernel, of := range map[string]struct{ file, sig string }{
		"tp_csr_small":  {"gen", "bbbbbbbbbbbii"},
		"tp_grad_small": {"gengrad", "bbbbbbbbbbibbii"}, "tp_gradx_small": {"gengradx", "bbbbbbbbbiib"},
	} {
		var text string
		text, headers = generatedSource(t, of.file)
		for _, arch := range []string{"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"} {
			target, own := c.chooseTarget(arch)
			ptx, code, err := c.compileSource(text, headers, target, own)
			if err != nil {
				t.Errorf("%s for %s: %v", kernel, arch, err)
				continue
			}
			if err := readPTX(ptx).checkEntry(kernel, of.sig); err != nil {
				t.Errorf("%s: %v", arch, err)
			}
			if own != (len(code) > 0) || own && !bytes.HasPrefix(code, []byte("\x7fELF")) {
				t.Errorf("%s for %s as %s: %d bytes of machine code", kernel, arch, target, len(code))
			}
			t.Logf("NVRTC %s for %s: %s, %d bytes of PTX, %d of machine code", c.version, arch, target, len(ptx), len(code))
		}
	}
	if _, _, err := c.compileSource("extern \"C\" __global__ void k(float *p) { p[0] = nothing; }", headers, "sm_80", true); err == nil || !strings.Contains(err.Error(), "\"nothing\" is undefined") {
		t.Errorf("a source with a fault: %v", err)
	}
}

// generatedSource is a generated kernel of workloads/op with the headers of all of them.
func generatedSource(t *testing.T, kind string) (string, map[string]string) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile("../../op/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := map[string]string{}
	for _, name := range []string{"op.cuh", "tensorproduct.cuh", "tensorproduct_gen.cuh", "tensorproduct_grad.cuh", "tensorproduct_gengrad.cuh", "tensorproduct_gengradx.cuh"} {
		all[name] = read(name)
	}
	headers, err := addDialect(all)
	if err != nil {
		t.Fatal(err)
	}
	files, err := tpgen.Files()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f tpgen.File) bool { return f.Name == "tensorproduct_"+kind+"_small" })
	return files[i].Text, headers
}

// The device's own generation where the compiler knows it, else PTX of the newest below.
func TestNVRTCTarget(t *testing.T) {
	knows := func(list ...int32) *nvrtc {
		return &nvrtc{archs: func(to *int32) int32 { copyTo(to, list); return 0 }, archCount: func(n *int32) int32 { *n = int32(len(list)); return 0 },
			codeSize: func(uintptr, *uintptr) int32 { return 0 }}
	}
	for _, c := range []struct {
		of   *nvrtc
		arch string
		want string
		own  bool
	}{
		{knows(75, 80, 90), "sm_90", "sm_90", true},
		{knows(75, 80, 86, 90), "sm_89", "compute_86", false},
		{knows(75, 80, 90), "sm_120", "compute_90", false},
		{knows(52, 60), "sm_90", "compute_75", false}, // it will refuse, and says so
		{new(nvrtc), "sm_90", "compute_75", false},
		{knows(75, 90), "gfx90a", "compute_75", false},
	} {
		if got, own := c.of.chooseTarget(c.arch); got != c.want || own != c.own {
			t.Errorf("%s is compiled as %s, %t; expected %s, %t", c.arch, got, own, c.want, c.own)
		}
	}
}

func TestNVRTCNames(t *testing.T) {
	for _, c := range []struct {
		major        int
		system, want string
	}{{11, "linux", "libnvrtc.so.11.2"}, {12, "linux", "libnvrtc.so.12"}, {13, "windows", "nvrtc64_130_0.dll"}, {11, "windows", "nvrtc64_112_0.dll"}} {
		if got := nvrtcFile(c.major, c.system); got != c.want {
			t.Errorf("%d on %s is %s, expected %s", c.major, c.system, got, c.want)
		}
	}
}

// A kernel is kept by all that it was made from, and one that is half there is none.
func TestKeptCode(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	k := keptCode("12.8", "sm_90", "text", map[string]string{"a.cuh": "1"})
	if _, _, found := k.read(); found {
		t.Error("an empty folder has a kernel")
	}
	k.write("ptx", []byte("code"))
	if ptx, code, found := k.read(); !found || ptx != "ptx" || string(code) != "code" {
		t.Errorf("%q, %q, %t", ptx, code, found)
	}
	for name, other := range map[string]keptFiles{
		"version": keptCode("12.9", "sm_90", "text", map[string]string{"a.cuh": "1"}), "generation": keptCode("12.8", "sm_80", "text", map[string]string{"a.cuh": "1"}),
		"source": keptCode("12.8", "sm_90", "texts", map[string]string{"a.cuh": "1"}), "header": keptCode("12.8", "sm_90", "text", map[string]string{"a.cuh": "2"}),
	} {
		if _, _, found := other.read(); found {
			t.Errorf("another %s finds the same kernel", name)
		}
	}
	if err := os.Remove(k.code); err != nil {
		t.Fatal(err)
	}
	if _, _, found := k.read(); found {
		t.Error("PTX without its machine code is found")
	}
	if left, _ := filepath.Glob(filepath.Dir(k.ptx) + "/*"); len(left) != 1 {
		t.Errorf("the folder holds %v", left)
	}
	keptFiles{}.write("ptx", nil) // without a cache folder nothing is kept, and nothing fails
}

func copyTo(to *int32, list []int32) { copy(unsafe.Slice(to, len(list)), list) }
