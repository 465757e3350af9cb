package vec

// The fields of a Tile are read by their places in it.
//
//go:noescape
func tile6x16(t *Tile)

//go:noescape
func tile6x8(t *Tile)

func tile(t *Tile) {
	switch {
	case !fast:
		tileGeneric(t)
	case t.Cols == 8:
		tile6x8(t)
	default:
		tile6x16(t)
	}
}
