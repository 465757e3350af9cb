package machinecode

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
)

// readCode is the generation of an ELF64 file of machine code, and its sections .text.KERNEL.
// Package debug/elf refuses the version of ELF that it names.
func readCode(t *testing.T, code []byte) (sm, kernels int) {
	t.Helper()
	le := binary.LittleEndian
	if len(code) < 64 || string(code[:4]) != "\x7fELF" || le.Uint16(code[18:]) != 190 { // EM_CUDA
		t.Fatalf("no machine code: %q", code[:min(len(code), 20)])
	}
	flags := le.Uint32(code[48:])
	if code[8] >= 8 { // the version of the ABI since which the generation stands there
		flags >>= 8
	}
	section := func(i int) []byte { return code[le.Uint64(code[40:])+uint64(i)*64:] }
	names := code[le.Uint64(section(int(le.Uint16(code[62:])))[24:]):]
	for i := range int(le.Uint16(code[60:])) {
		s := section(i)
		if bytes.HasPrefix(names[le.Uint32(s):], []byte(".text.")) && le.Uint64(s[32:]) > 0 {
			kernels++
		}
	}
	return int(flags & 0xff), kernels
}

func TestArchOf(t *testing.T) {
	for gpu, want := range map[string]string{
		"sm_75": "", "sm_80": "sm_80", "sm_86": "sm_80", "sm_89": "sm_80", "sm_90": "sm_90", "sm_100": "sm_100", "sm_103": "sm_100",
		"sm_110": "", "sm_120": "", "sm_": "", "": "", "gfx90a": "",
	} {
		if got := archOf(gpu); got != want {
			t.Errorf("%q runs %q, want %q", gpu, got, want)
		}
	}
}

// Each file of the archive is machine code for its generation and has a kernel.
func TestArchive(t *testing.T) {
	packed, err := os.ReadFile("code.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Read(packed, "")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for name, code := range all {
		arch, _, _ := strings.Cut(name, "/")
		count[arch]++
		sm, kernels := readCode(t, code)
		if "sm_"+strconv.Itoa(sm) != arch || kernels == 0 {
			t.Errorf("%s is for sm_%d and has %d kernels", name, sm, kernels)
		}
	}
	for _, arch := range Archs {
		if count[arch] < 30 || count[arch] != count[Archs[0]] {
			t.Errorf("%d files for %s: %v", count[arch], arch, count)
		}
	}
	if _, err := Read(packed[:len(packed)/2], ""); err == nil {
		t.Error("half an archive is no error")
	}
}

// What is no PTX of the program's has no machine code, and neither has a GPU of another generation.
func TestFor(t *testing.T) {
	if code, _, found := For("// no kernel of ours", "sm_90"); found || code != nil {
		t.Errorf("%d bytes", len(code))
	}
	if (len(archive) > 0) != (len(unpackArch("sm_90")) > 0) {
		t.Errorf("an archive of %d bytes, and %d files for sm_90", len(archive), len(unpackArch("sm_90")))
	}
	for name, code := range unpackArch("sm_90") {
		if !strings.HasPrefix(name, "sm_90/") || len(code) == 0 {
			t.Errorf("%s: %d bytes", name, len(code))
		}
	}
}
