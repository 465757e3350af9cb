package op

import (
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// allKernels is every Kernel literal of the package; TestKernelLiterals finds
// one that is missing.
func allKernels() []*device.Kernel {
	all := []*device.Kernel{
		&basisKernel, &sphKernel, &fillKernel, &transposeKernel, &gateKernel, &linearKernel,
		&scatterAtomicKernel, &scatterSortedKernel, &scaleKernel, &packLeftKernel, &packRightKernel, &radialKernel, &gemmKernel, &gemm64Kernel, &actInplaceKernel,
		&gatherKernel, &outerKernel, &contractKernel, &weightKernel,
		&actApplyKernel, &actGradKernel, &actTangentKernel, &actSecondKernel, &addKernel, &flipKernel, &gateGradKernel, &gateTangentKernel, &gateSecondKernel, &basisGradKernel, &basisTangentKernel, &sphGradKernel, &sphTangentKernel,
		&positionsKernel, &positionsGradKernel, &readoutKernel, &readoutGradKernel, &sumKernel, &residualKernel, &tpGradKernel, &tpGradXKernel, &tpGradSumKernel, &weightGradKernel, &weightSumKernel, &roundKernel,
		&tpFusedKernel, &tpCSRKernel, &tpCSRMLPKernel, &tpFixupKernel,
		&tpSmallKernel, &tpMaceMediumKernel, &tpMaceLargeKernel, &tpNequipLipsKernel, &tpDeepawNaturalKernel, &tpDeepawKernel,
		&tpGradSmallKernel, &tpGradMaceMediumKernel, &tpGradMaceLargeKernel, &tpGradNequipLipsKernel, &tpGradDYKernel,
		&tpGradXSmallKernel, &tpGradXMaceMediumKernel, &tpGradXMaceLargeKernel,
		&tpMMASmallKernel, &tpMMAMaceLargeKernel,
	}
	for _, precision := range []string{FP32, TF32, BF16, FP16} {
		all = append(all, gemmLibKernels[precision])
	}
	return all
}

func entryOf(k *device.Kernel) string {
	if k.Entry != "" {
		return k.Entry
	}
	return k.Name
}

var (
	entryPattern  = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)(.*?)\{`)
	paramPattern  = regexp.MustCompile(`\.param \.(\w+)`)
	threadPattern = regexp.MustCompile(`\.maxntid (\d+)`)
	hashPattern   = regexp.MustCompile(`(?m)^// sha256 ([0-9a-f]{64}) (\S+)$`)
)

// entry is a kernel as the PTX declares it.
type entry struct {
	params  []string
	threads int // the most a block may have, 0 for any
}

func entriesOf(ptx string) map[string]entry {
	found := map[string]entry{}
	for _, m := range entryPattern.FindAllStringSubmatch(ptx, -1) {
		var e entry
		for _, p := range paramPattern.FindAllStringSubmatch(m[2], -1) {
			e.params = append(e.params, p[1])
		}
		if t := threadPattern.FindStringSubmatch(m[3]); t != nil {
			e.threads, _ = strconv.Atoi(t[1])
		}
		found[m[1]] = e
	}
	return found
}

// textOf is the PTX of a kernel.
func textOf(t *testing.T, k *device.Kernel) string {
	t.Helper()
	text, err := ptx.Text(k)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every kernel has PTX with its entry, whose parameters are those of the
// signature and then the number of items, and a launch shape that fits it.
func TestKernelLiterals(t *testing.T) {
	kinds := map[rune]string{'b': "u64", 'i': "u32", 'f': "f32"}
	var listed []string
	for _, k := range allKernels() {
		listed = append(listed, entryOf(k))
		if k.Host == nil || k.Threads < 32 || k.Threads%32 != 0 || k.PerBlock < 1 {
			t.Errorf("%s: host twin %t, %d threads per block, %d items a block", k.Name, k.Host != nil, k.Threads, k.PerBlock)
		}
		if len(k.Sig) >= device.MaxArgs {
			t.Errorf("%s: %d parameters leave no room for the number of items", k.Name, len(k.Sig))
		}
		e, ok := entriesOf(textOf(t, k))[entryOf(k)]
		if !ok {
			t.Errorf("%s: its PTX has no entry %s", k.Name, entryOf(k))
			continue
		}
		var want []string
		for _, c := range k.Sig {
			want = append(want, kinds[c])
		}
		if want = append(want, "u32"); !slices.Equal(e.params, want) {
			t.Errorf("%s: the PTX takes %v, the signature %q asks for %v", k.Name, e.params, k.Sig, want)
		}
		if e.threads > 0 && k.Threads > e.threads {
			t.Errorf("%s: %d threads per block, compiled for %d", k.Name, k.Threads, e.threads)
		}
	}
	slices.Sort(listed)
	if found := kernelLiterals(t); !slices.Equal(listed, found) {
		t.Errorf("kernels in the sources:\n%v\nkernels listed here:\n%v", found, listed)
	}
	for _, threads := range []int{tpCSRKernel.Threads, TensorProduct{}.threads()} {
		if threads != 128 {
			t.Errorf("csr has %d threads per block in one place and 128 in another", threads)
		}
	}
	for impl, k := range map[string]*device.Kernel{ImplCSR: &tpCSRKernel, ImplFused: &tpFusedKernel, ImplCSRMLP: &tpCSRMLPKernel} {
		if got, want := entriesOf(textOf(t, k))[k.Name].threads, (TensorProduct{Impl: impl}).mostThreads(); got != want {
			t.Errorf("%s is compiled for %d threads, the binding allows %d", k.Name, got, want)
		}
	}
}

// kernelLiterals reads the entries of all literals with the fields Name and Sig.
func kernelLiterals(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]string{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						if v, ok := kv.Value.(*ast.BasicLit); ok {
							fields[key.Name], _ = strconv.Unquote(v.Value)
						}
					}
				}
			}
			if fields["Sig"] != "" {
				entry := fields["Entry"]
				if entry == "" {
					entry = fields["Name"]
				}
				found = append(found, entry)
			}
			return true
		})
	}
	slices.Sort(found)
	return found
}

// The PTX beside every source was made from it as it is, and from the headers
// as they are. A failure means: run make kernels.
func TestPTXIsFresh(t *testing.T) {
	sources, err := filepath.Glob("*.cu")
	if err != nil || len(sources) == 0 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	registered := regexp.MustCompile(`(?m)^GPUPROF_KERNEL\((\w+)\)`)
	for _, source := range sources {
		packed, err := os.ReadFile(strings.TrimSuffix(source, ".cu") + ".ptx.zst")
		ptx := textOf(t, &device.Kernel{Name: source, PTX: string(packed)})
		if err != nil {
			t.Errorf("%v; run make kernels", err)
			continue
		}
		hashes := hashPattern.FindAllStringSubmatch(ptx, -1)
		if len(hashes) < 2 || hashes[0][2] != source {
			t.Errorf("%s: the PTX does not name its sources; run make kernels", source)
			continue
		}
		for _, h := range hashes {
			if filepath.IsAbs(h[2]) {
				t.Errorf("%s: the PTX names %s by an absolute path", source, h[2])
			}
			text, err := os.ReadFile(h[2])
			if err != nil {
				t.Error(err)
				continue
			}
			// A checkout may have turned line ends.
			sum := sha256.Sum256([]byte(strings.ReplaceAll(string(text), "\r\n", "\n")))
			if hex.EncodeToString(sum[:]) != h[1] {
				t.Errorf("%s is older than %s; run make kernels", strings.TrimSuffix(source, ".cu")+".ptx.zst", h[2])
			}
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range registered.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		var entries []string
		for name := range entriesOf(ptx) {
			entries = append(entries, name)
		}
		slices.Sort(names)
		slices.Sort(entries)
		if !slices.Equal(names, entries) {
			t.Errorf("%s registers %v, its PTX has %v", source, names, entries)
		}
	}
}
