//go:build !amd64

package vec

func tile(t *Tile) { tileGeneric(t) }
