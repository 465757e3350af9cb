package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// amdLacks is why a fixture of a rule has other findings on an MI300X.
var amdLacks = map[string]string{
	"hidden-sync-fires":        "a copy does not tell pageable from pinned memory: the wait is a part of host-bound",
	"pageable-h2d-fires":       "as hidden-sync-fires: the copy is exposed-copy's alone",
	"no-tf32-fires":            "the setting is one of NVIDIA's; 16 bits are what is left to try",
	"small-grid-fires":         "the device has 304 multiprocessors in place of 108, so that the same grid fills less of it",
	"attention-off-peak-fires": "the rates are those of NVIDIA's devices",
	"off-peak-gemm-fires":      "the unit of alignment is that of NVIDIA's tensor cores",
	"tensor-cores-fires":       "the names of the kernels do not tell which cores compute in FP32",
}

// The kernels and calls by which PyTorch for ROCm does what the fixtures do, and the device.
// The names of the TF32 product (S_MX) and of the sort are made up after the naming of
// hipBLASLt and rocPRIM; no recording has them.
var (
	amdWords = strings.NewReplacer(
		`"cuda`, `"hip`,
		`(Pageable -\u003e Device)`, `(Host -\u003e Device)`, `(Pinned -\u003e Device)`, `(Host -\u003e Device)`,
		`(Device -\u003e Pageable)`, `(Device -\u003e Host)`, `(Device -\u003e Pinned)`, `(Device -\u003e Host)`,
	)
	amdDevice  = regexp.MustCompile(`"name": "[^"]*", "totalGlobalMem": \d+, "computeMajor": \d+, "computeMinor": \d+, "numSms": \d+`)
	amdKernels = []struct {
		from *regexp.Regexp
		to   string
	}{
		{regexp.MustCompile(`"name":"[a-z0-9_]*sgemm[^"]*"`), `"name":"Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x32_MI16x16x1_SN"`},
		{regexp.MustCompile(`"name":"(ampere_bf16|sm80_xmma_gemm_bf16)[^"]*"`), `"name":"Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x32_MI16x16x1_SN"`},
		{regexp.MustCompile(`"name":"sm80_xmma_gemm_f32f32_tf32[^"]*"`), `"name":"Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN"`},
		{regexp.MustCompile(`"name":"void cub::DeviceRadixSort[^"]*"`), `"name":"void rocprim::detail::onesweep_kernel\u003crocprim::detail::wrapped_radix_sort_onesweep_config\u003e(int*)"`},
		{regexp.MustCompile(`"name":"nccl[^"]*Kernel[^"]*"`), `"name":"ncclDevKernel_Generic(ncclDevKernelArgsStorage\u003c4096ul\u003e)"`},
	}
)

// TestAMDTwins gives every trace of the rules to the analysis a second time, as an MI300X
// would have it. Its findings and their claims are the same.
func TestAMDTwins(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(traceFolder, "*.json"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			want, _ := analyse(t, recorded(t, file))
			got, _ := analyse(t, asAMD(t, file, "AMD Instinct MI300X"))
			d := cmp.Diff(claimed(want), claimed(got))
			why := amdLacks[name]
			if d != "" && why == "" {
				t.Errorf("findings (-NVIDIA +AMD):\n%s", d)
			}
			if d == "" && why != "" {
				t.Errorf("the findings are the same, so the list is wrong: %s", why)
			}
			if d := cmp.Diff(want.Step, got.Step); d != "" {
				t.Errorf("the mean step:\n%s", d)
			}
		})
	}
}

// What is known of AMD's matrix cores is known from the device's name, and nothing is said
// where a product may be in 16 bits.
func TestAMDPrecision(t *testing.T) {
	fires := filepath.Join(traceFolder, "no-amp-fires.json")
	claimOf := func(device string, product ...string) int64 {
		in := asAMD(t, fires, device)
		for i, name := range in.Names {
			if len(product) == 1 && strings.HasPrefix(name, "Cijk_") {
				in.Names[i] = product[0]
			}
		}
		a, _ := analyse(t, in)
		if find(a, "no-tf32") != nil || find(a, "tensor-cores") != nil {
			t.Errorf("%s: %v", device, ids(a))
		}
		if f := find(a, "no-amp"); f != nil {
			if strings.Contains(f.PyTorch, "Ampere") {
				t.Errorf("%s: %s", device, f.PyTorch)
			}
			return f.StepNS
		}
		return 0
	}
	eight, four := claimOf("AMD Instinct MI300X VF"), claimOf("AMD Instinct MI250X")
	if eight == 0 || four*7*4 < eight*8*3-28 || four*7*4 > eight*8*3+28 { // 3/4 against 7/8, in whole ns
		t.Errorf("%d ns are claimed on an MI300X, %d on an MI250X", eight, four)
	}
	db, _ := analyse(t, asRocpd(t, asAMD(t, fires, "AMD Instinct MI300X"))) // its tables have no numbers of an architecture
	if f := find(db, "no-amp"); f == nil || f.StepNS != eight {
		t.Errorf("from a database: %+v, want %d ns", f, eight)
	}
	for _, device := range []string{"AMD Radeon Graphics", "AMD Instinct MI60", ""} {
		if ns := claimOf(device); ns != 0 {
			t.Errorf("%d ns are claimed on %q", ns, device)
		}
	}
	if ns := claimOf("AMD Instinct MI300X", "_ZN2ck16tensor_operation6device14kernel_gemm_xdl_cshuffle_v3INS_28GridwiseGemm"); ns != 0 {
		t.Errorf("%d ns are claimed of products whose type is unknown", ns)
	}
	// A device without a name is AMD's where the program called HIP.
	if ns := claimOf("", "ampere_sgemm_128x64_tn"); ns != 0 {
		t.Errorf("%d ns are claimed on a device without a name", ns)
	}
}

// asAMD is a fixture with the names that a device of AMD has for what is in it.
func asAMD(t *testing.T, file, device string) *model.Trace {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := amdDevice.ReplaceAllString(string(raw), `"name": "`+device+`", "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4, "numSms": 304`)
	text = strings.ReplaceAll(text, `"cuda_runtime"`, `"RUNTIME"`)
	text = amdWords.Replace(text)
	text = strings.ReplaceAll(text, `"RUNTIME"`, `"cuda_runtime"`) // the category is called so on both
	for _, k := range amdKernels {
		text = k.from.ReplaceAllLiteralString(text, k.to)
	}
	if text == string(raw) || strings.Contains(text, "NVIDIA") {
		t.Fatal("the trace was not made AMD's")
	}
	out, err := kineto.Read(t.Context(), strings.NewReader(text), file, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
