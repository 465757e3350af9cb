package figure

import (
	"slices"
	"testing"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// Every glyph, its width and the kerning of letters equal those in the font that ours was made from.
func TestFontsDrawAsLiberation(t *testing.T) {
	for _, c := range []struct {
		name     string
		own, old []byte
	}{{"regular", regularTTF, liberationsansregular.TTF}, {"bold", boldTTF, liberationsansbold.TTF}} {
		own, err := sfnt.Parse(c.own)
		if err != nil {
			t.Fatal(err)
		}
		old, err := sfnt.Parse(c.old)
		if err != nil {
			t.Fatal(err)
		}
		if own.NumGlyphs() != old.NumGlyphs() || own.NumGlyphs() < 2000 {
			t.Fatalf("%s: %d glyphs, the original %d", c.name, own.NumGlyphs(), old.NumGlyphs())
		}
		var a, b sfnt.Buffer
		size := fixed.I(1000)
		for r := range rune(0x10000) {
			x, errX := own.GlyphIndex(&a, r)
			y, errY := old.GlyphIndex(&b, r)
			if x != y || errX != nil || errY != nil {
				t.Fatalf("%s: %U is glyph %d, the original %d: %v, %v", c.name, r, x, y, errX, errY)
			}
		}
		for g := range sfnt.GlyphIndex(own.NumGlyphs()) {
			x, errX := own.LoadGlyph(&a, g, size, nil)
			y, errY := old.LoadGlyph(&b, g, size, nil)
			if !slices.Equal(x, y) || errX != nil || errY != nil {
				t.Fatalf("%s: glyph %d differs from the original: %v, %v", c.name, g, errX, errY)
			}
			v, errX := own.GlyphAdvance(&a, g, size, font.HintingNone)
			w, errY := old.GlyphAdvance(&b, g, size, font.HintingNone)
			if v != w || errX != nil || errY != nil {
				t.Fatalf("%s: glyph %d is %v wide, the original %v: %v, %v", c.name, g, v, w, errX, errY)
			}
		}
		for x := rune(' '); x < 0x250; x++ {
			for y := rune(' '); y < 0x250; y++ {
				i, _ := own.GlyphIndex(&a, x)
				j, _ := own.GlyphIndex(&a, y)
				// A pair without kerning is no error for one kind of table and one for the other; both give 0.
				v, _ := own.Kern(&a, i, j, size, font.HintingNone)
				if w, _ := old.Kern(&b, i, j, size, font.HintingNone); v != w {
					t.Fatalf("%s: kerning of %q %q is %v, the original %v", c.name, x, y, v, w)
				}
			}
		}
	}
}
