package op

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// allKernels is every Kernel literal of the package; TestKernelLiterals finds
// one that is missing.
func allKernels() []*device.Kernel {
	all := []*device.Kernel{
		&basisKernel, &sphKernel, &fillKernel, &transposeKernel, &gateKernel, &linearKernel,
		&scatterAtomicKernel, &scatterSortedKernel, &scaleKernel, &packLeftKernel, &packRightKernel, &radialKernel, &gemmKernel, &gemm64Kernel, &actInplaceKernel,
		&gatherKernel, &outerKernel, &contractKernel, &weightKernel,
		&actApplyKernel, &actGradKernel, &addKernel, &flipKernel, &gateGradKernel, &basisGradKernel, &sphGradKernel,
		&positionsKernel, &readoutKernel, &readoutGradKernel, &sumKernel, &residualKernel, &tpGradKernel, &tpGradXKernel, &tpGradSumKernel, &weightGradKernel, &weightSumKernel, &roundKernel,
		&tpFusedKernel, &tpCSRKernel, &tpFixupKernel,
		&tpSmallKernel, &tpMaceMediumKernel, &tpMaceLargeKernel, &tpNequipLipsKernel, &tpDeepawNaturalKernel, &tpDeepawKernel,
		&tpGradSmallKernel, &tpGradMaceMediumKernel, &tpGradMaceLargeKernel, &tpGradNequipLipsKernel, &tpGradDeepawNaturalKernel, &tpGradDeepawKernel, &tpGradDYKernel,
		&tpGradXSmallKernel, &tpGradXMaceMediumKernel, &tpGradXMaceLargeKernel,
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
	for _, threads := range []int{tpCSRKernel.Threads, TensorProduct{}.blockThreads()} {
		if threads != 128 {
			t.Errorf("csr has %d threads per block in one place and 128 in another", threads)
		}
	}
	for _, k := range []*device.Kernel{&tpCSRKernel, &tpFusedKernel} {
		if got, want := entriesOf(textOf(t, k))[k.Name].threads, maxTPThreads; got != want {
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
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "libraryProduct" {
					found = append(found, "gemm_lib_"+strings.ToLower(call.Args[0].(*ast.Ident).Name))
				}
			}
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]string{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						if key.Name == "PTX" {
							fields["PTX"] = "given"
						}
						if v, ok := kv.Value.(*ast.BasicLit); ok {
							fields[key.Name], _ = strconv.Unquote(v.Value)
						}
					}
				}
			}
			if fields["Name"] != "" && fields["PTX"] != "" {
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

// cudaSources are the texts of all .cu by file name: those here, and what tpgen generates.
func cudaSources(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.cu")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d sources, %v", len(names), err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	maps.DeleteFunc(texts, func(name, _ string) bool { return generatedName.MatchString(name) }) // left by an older generator
	for _, f := range generatedFiles(t) {
		texts[f.Name+".cu"] = f.Text
	}
	return texts
}

// generatedName matches the files of tpgen that .gitignore names.
var generatedName = regexp.MustCompile(`^tensorproduct_(gen|gengrad|gengradx)_\w+\.cu$`)

func generatedFiles(t *testing.T) []tpgen.File {
	t.Helper()
	files, err := tpgen.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ptxOf is the PTX that was made from a source.
func ptxOf(name string) (string, error) {
	packed, err := os.ReadFile(name + ".ptx.zst")
	if err != nil {
		return "", err
	}
	return ptx.Text(&device.Kernel{Name: name, PTX: string(packed)})
}

// The PTX of every source was made from the present source and headers. A failure means: run make kernels.
func TestPTXIsFresh(t *testing.T) {
	registered := regexp.MustCompile(`(?m)^GPUPROF_KERNEL\((\w+)\)`)
	sources := cudaSources(t)
	for source, text := range sources {
		ptx, err := ptxOf(strings.TrimSuffix(source, ".cu"))
		if err == nil {
			err = stale(source, ptx, sources)
		}
		if err != nil {
			t.Errorf("%v; run make kernels", err)
			continue
		}
		var names []string
		for _, m := range registered.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		entries := slices.Sorted(maps.Keys(entriesOf(ptx)))
		slices.Sort(names)
		if !slices.Equal(names, entries) {
			t.Errorf("%s registers %v, its PTX has %v", source, names, entries)
		}
	}
}

// stale is an error where a PTX was made from another source or other headers than there are.
func stale(source, ptx string, sources map[string]string) error {
	hashes := hashPattern.FindAllStringSubmatch(ptx, -1)
	if len(hashes) < 2 || hashes[0][2] != source {
		return fmt.Errorf("%s: the PTX does not name its sources", source)
	}
	for _, h := range hashes {
		if filepath.IsAbs(h[2]) {
			return fmt.Errorf("%s: the PTX names %s by an absolute path", source, h[2])
		}
		text, is := sources[h[2]]
		if !is {
			header, err := os.ReadFile(h[2])
			if err != nil {
				return err
			}
			text = string(header)
		}
		// A checkout may have turned line ends.
		sum := sha256.Sum256([]byte(strings.ReplaceAll(text, "\r\n", "\n")))
		if hex.EncodeToString(sum[:]) != h[1] {
			return fmt.Errorf("the PTX of %s is older than %s", source, h[2])
		}
	}
	return nil
}

// generated.sha256 connects what the generator writes, which is not in git, with the PTX that is: a
// changed generator without new PTX fails, and so does a changed PTX without its hash.
func TestGeneratedSums(t *testing.T) {
	kept, err := os.ReadFile("generated.sha256")
	if err != nil {
		t.Fatal(err)
	}
	check := func(files []tpgen.File, read func(string) (string, error)) error {
		text, err := tpgen.Sums(files, read)
		if err == nil && text != strings.ReplaceAll(string(kept), "\r\n", "\n") {
			err = errors.New("generated.sha256 is not that of the generator and the PTX")
		}
		sources := cudaSources(t)
		for _, f := range files {
			sources[f.Name+".cu"] = f.Text
			if err == nil {
				var made string
				if made, err = read(f.Name); err == nil {
					err = stale(f.Name+".cu", made, sources)
				}
			}
		}
		return err
	}
	files := generatedFiles(t)
	if err := check(files, ptxOf); err != nil {
		t.Fatalf("%v; run make kernels", err)
	}
	other := slices.Clone(files)
	other[3].Text += "\n"
	if check(other, ptxOf) == nil {
		t.Error("a changed generator is taken for that of the PTX")
	}
	if text, err := tpgen.Sums(other, ptxOf); err != nil {
		t.Fatal(err)
	} else if kept = []byte(text); check(other, ptxOf) == nil {
		t.Error("a changed generator is taken for that of the PTX once its hash is written")
	}
	if kept, err = os.ReadFile("generated.sha256"); err != nil {
		t.Fatal(err)
	}
	if check(files, func(name string) (string, error) {
		text, err := ptxOf(name)
		return strings.Replace(text, "add.", "sub.", 1), err
	}) == nil {
		t.Error("a changed PTX is taken for that of the generator")
	}
	if check(files[1:], ptxOf) == nil {
		t.Error("a family that left the generator is not missed")
	}
}
