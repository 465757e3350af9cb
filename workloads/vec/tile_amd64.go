package vec

// tile6x16 reads the fields of Tile by their offsets.
//
//go:noescape
func tile6x16(t *Tile)

//go:noescape
func tile6x8(t *Tile)

func computeTile(t *Tile) {
	switch {
	case !fast:
		tileGeneric(t)
	case t.Cols == 8:
		tile6x8(t)
	default:
		tile6x16(t)
	}
}
