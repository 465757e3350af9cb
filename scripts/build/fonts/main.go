// Command fonts makes report/figure/fonts from the Liberation fonts: the same outlines, widths and kerning, without
// parts that the figures' renderer never uses. These are instructions for pixel grids, ligatures, names of glyphs,
// and the kerning by classes, which repeats the kerning by pairs. The license allows a changed font any name but
// Liberation. `go generate` runs it.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"unicode/utf16"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
)

func main() {
	for file, ttf := range map[string][]byte{
		"fonts/regular.ttf": liberationsansregular.TTF,
		"fonts/bold.ttf":    liberationsansbold.TTF,
	} {
		out, err := stripTables(ttf)
		if err == nil {
			err = os.WriteFile(file, out, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "fonts: making %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// kept lists the tables copied for outlines, widths and kerning; name, post and glyf are rewritten. Formats are
// from the OpenType specification, 1.9.
var kept = [...]string{"head", "hhea", "maxp", "OS/2", "hmtx", "cmap", "kern"}

var errShort = errors.New("the font ends early; download the module again")

// stripTables returns a TrueType font without instructions.
func stripTables(ttf []byte) (out []byte, err error) {
	defer func() {
		if recover() != nil { // an offset outside of the file; the tests of the fonts' users check the result
			out, err = nil, errShort
		}
	}()
	tables := map[string][]byte{}
	for i := range int(binary.BigEndian.Uint16(ttf[4:])) {
		e := ttf[12+16*i:]
		from, n := binary.BigEndian.Uint32(e[8:]), binary.BigEndian.Uint32(e[12:])
		tables[string(e[:4])] = ttf[from : from+n]
	}
	font := map[string][]byte{}
	for _, name := range kept {
		if t := tables[name]; t != nil {
			font[name] = slices.Clone(t)
		}
	}
	long := binary.BigEndian.Uint16(font["head"][50:]) == 1
	font["glyf"], font["loca"] = stripGlyphs(tables["glyf"], tables["loca"], int(binary.BigEndian.Uint16(font["maxp"][4:])), long)
	binary.BigEndian.PutUint16(font["head"][50:], 1) // offsets of 32 bits
	clear(font["maxp"][14:28])                       // zones, points, storage, functions and stack of the instructions
	binary.BigEndian.PutUint16(font["maxp"][14:], 1) // the smallest legal value
	post := make([]byte, 32)                         // without the glyphs' names
	copy(post, tables["post"][:32])                  // italic angle, underline
	binary.BigEndian.PutUint32(post, 0x00030000)
	font["post"], font["name"] = post, renameFont(tables["name"])
	return assembleFont(font), nil
}

// stripGlyphs returns the outlines without instructions, and the offset of each outline.
func stripGlyphs(glyf, loca []byte, n int, long bool) (outlines, offsets []byte) {
	at := func(i int) int {
		if long {
			return int(binary.BigEndian.Uint32(loca[4*i:]))
		}
		return 2 * int(binary.BigEndian.Uint16(loca[2*i:]))
	}
	for i := range n {
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(len(outlines)))
		if g := glyf[at(i):at(i+1)]; len(g) > 0 {
			outlines = append(outlines, stripOutline(g)...)
		}
	}
	return outlines, binary.BigEndian.AppendUint32(offsets, uint32(len(outlines)))
}

func stripOutline(g []byte) []byte {
	if contours := int(int16(binary.BigEndian.Uint16(g))); contours >= 0 {
		ends := 10 + 2*contours
		n := int(binary.BigEndian.Uint16(g[ends:]))
		return slices.Concat(g[:ends], []byte{0, 0}, g[ends+2+n:])
	}
	const words, scale, more, xy, two, instructions = 1, 8, 32, 64, 128, 256
	out, at := slices.Clone(g), 10
	for {
		flags := binary.BigEndian.Uint16(out[at:])
		binary.BigEndian.PutUint16(out[at:], flags&^instructions)
		at += 4 + 2
		if flags&words != 0 {
			at += 2
		}
		switch {
		case flags&scale != 0:
			at += 2
		case flags&xy != 0:
			at += 4
		case flags&two != 0:
			at += 8
		}
		if flags&more == 0 {
			return out[:at]
		}
	}
}

// renameFont returns a name table with unchanged copyright and license and with new font names.
func renameFont(old []byte) []byte {
	type record struct {
		id   uint16
		text []byte
	}
	var list []record
	own := map[uint16]string{1: "gpuprof Sans", 3: "gpuprof Sans", 4: "gpuprof Sans", 6: "gpuprofSans"}
	strings := int(binary.BigEndian.Uint16(old[4:]))
	for i := range int(binary.BigEndian.Uint16(old[2:])) {
		e := old[6+12*i:]
		if platform, id := binary.BigEndian.Uint16(e), binary.BigEndian.Uint16(e[6:]); platform == 3 {
			from := strings + int(binary.BigEndian.Uint16(e[10:]))
			text := old[from : from+int(binary.BigEndian.Uint16(e[8:]))]
			if name, is := own[id]; is {
				text = nil
				for _, c := range utf16.Encode([]rune(name)) {
					text = binary.BigEndian.AppendUint16(text, c)
				}
			}
			switch id {
			case 0, 1, 2, 3, 4, 5, 6, 13, 14: // copyright, names, version, license and its address
				list = append(list, record{id, text})
			}
		}
	}
	head := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(list)))
	head = binary.BigEndian.AppendUint16(head, uint16(6+12*len(list)))
	var texts []byte
	for _, r := range list {
		for _, v := range [...]uint16{3, 1, 0x409, r.id, uint16(len(r.text)), uint16(len(texts))} { // Windows, Unicode, English
			head = binary.BigEndian.AppendUint16(head, v)
		}
		texts = append(texts, r.text...)
	}
	return append(head, texts...)
}

// assembleFont returns a font file with the tables and the format's checksums.
func assembleFont(tables map[string][]byte) []byte {
	order := slices.Sorted(maps.Keys(tables))
	n, log := len(order), 0
	for 2<<log <= n {
		log++
	}
	binary.BigEndian.PutUint32(tables["head"][8:], 0) // checksum of the whole file, computed last
	out := []byte{0, 1, 0, 0}
	for _, v := range [...]int{n, 16 << log, log, 16*n - 16<<log} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	at := len(out) + 16*n
	var body []byte
	head := 0
	for _, name := range order {
		t := tables[name]
		if name == "head" {
			head = at
		}
		padded := append(slices.Clone(t), make([]byte, -len(t)&3)...)
		out = append(out, name...)
		for _, v := range [...]uint32{sum(padded), uint32(at), uint32(len(t))} {
			out = binary.BigEndian.AppendUint32(out, v)
		}
		body, at = append(body, padded...), at+len(padded)
	}
	out = append(out, body...)
	binary.BigEndian.PutUint32(out[head+8:], 0xB1B0AFBA-sum(out))
	return out
}

// sum adds 32-bit words.
func sum(b []byte) (s uint32) {
	for ; len(b) >= 4; b = b[4:] {
		s += binary.BigEndian.Uint32(b)
	}
	return s
}
