package cuda

import (
	"iter"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// ptxTarget and ptxEntry are matched only where findWord finds their first word: a search of the whole text took most
// of a load's time.
var (
	ptxTarget = lazyregexp.New(`^\.target\s+sm_(\d+)`)
	ptxEntry  = lazyregexp.New(`^\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?`)
	ptxType   = lazyregexp.New(`^\.param\s+(?:\.align\s+\d+\s+)?\.([bsuf])(\d+)\b`)
	cName     = lazyregexp.New(`^[A-Za-z_]\w*$`)
)

// ptxText is a PTX text with its target and entries, parsed once for all loads.
type ptxText struct {
	text    string
	target  int               // compute capability of the target, such as 75; 0 if unknown
	entries []string          // in the order of the text
	params  map[string]string // parameter lists by entry
}

func readPTX(text string) *ptxText {
	p := &ptxText{text: text, target: targetOf(text), params: map[string]string{}}
	for at := range findWord(text, ".entry") {
		m := ptxEntry.FindStringSubmatch(text[at:])
		if m == nil {
			continue
		}
		if _, known := p.params[m[1]]; !known {
			p.entries, p.params[m[1]] = append(p.entries, m[1]), m[2]
		}
	}
	return p
}

// checkEntry checks that an entry takes the parameters of the signature sig and then the number of items. A launch with
// too few or too narrow parameters would read whatever memory follows.
func (p *ptxText) checkEntry(entry, sig string) error {
	if list, found := p.params[entry]; found {
		return checkParams(list, entry, sig)
	}
	if len(p.entries) == 0 {
		return gpuprof.Errorf(nil, "the PTX has no entry").WithFix("regenerate it with make kernels")
	}
	return gpuprof.Errorf(nil, "the PTX has no entry %s, only %s", entry, strings.Join(p.entries, ", ")).WithFix("correct Entry")
}

func checkParams(list, entry, sig string) error {
	var params []string
	if strings.TrimSpace(list) != "" {
		params = strings.Split(list, ",")
	}
	if len(params) != len(sig)+1 {
		return gpuprof.Errorf(nil, "entry %s has %d parameters and signature %q needs %d (its own and the number of items)", entry, len(params), sig, len(sig)+1).WithFix("make them agree")
	}
	for i, p := range params {
		want := byte('i')
		if i < len(sig) {
			want = sig[i]
		}
		kind, bits := "?", ""
		if m := ptxType.FindStringSubmatch(strings.TrimSpace(p)); m != nil {
			kind, bits = m[1], m[2]
		}
		if strings.Contains(p, "[") || !fitsLetter(want, kind, bits) {
			return gpuprof.Errorf(nil, "parameter %d of entry %s is %s and signature %q wants %s", i, entry, strings.TrimSpace(p), sig+"i", wantText(want)).WithFix("make them agree")
		}
	}
	return nil
}

// fitsLetter reports whether a PTX type can hold a parameter with this letter of the signature.
func fitsLetter(letter byte, kind, bits string) bool {
	switch letter {
	case 'b':
		return bits == "64" && kind != "f"
	case 'i':
		return bits == "32" && kind != "f"
	}
	return bits == "32" && (kind == "f" || kind == "b")
}

func wantText(letter byte) string {
	switch letter {
	case 'b':
		return "a 64-bit address"
	case 'i':
		return "a 32-bit integer"
	}
	return "a float32"
}

func findWord(text, word string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; ; at += len(word) {
			i := strings.Index(text[at:], word)
			if i < 0 || !yield(at+i) {
				return
			}
			at += i
		}
	}
}

// targetOf returns the compute capability of the PTX's target, such as 75; 0 if it has none.
func targetOf(ptx string) int {
	for at := range findWord(ptx, ".target") {
		line := ptx[strings.LastIndexByte(ptx[:at], '\n')+1 : at]
		if m := ptxTarget.FindStringSubmatch(ptx[at:]); m != nil && strings.TrimSpace(line) == "" {
			v, _ := strconv.Atoi(m[1]) // gives 0 for a number that does not fit
			return v
		}
	}
	return 0
}
