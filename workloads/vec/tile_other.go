//go:build !amd64

package vec

func computeTile(t *Tile) { tileGeneric(t) }
