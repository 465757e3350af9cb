package pool

import "slices"

// widest is the largest number of blocks in a part of a list; a larger part is split.
const widest = 256

// list has blocks in order. It is divided into parts, so that a change moves few entries.
type list struct {
	parts [][]*Block
	order func(a, b *Block) int
	n     int
	work  *int64   // entries visited or moved
	spare []*Block // buffer of a part that became empty
}

// place is the position of a block in a list.
type place struct{ part, at int }

// find returns the first place whose block is not ordered before key.
func (l *list) find(key *Block) place {
	i, _ := slices.BinarySearchFunc(l.parts, key, func(part []*Block, key *Block) int { return l.order(part[len(part)-1], key) })
	if i == len(l.parts) {
		return place{i, 0}
	}
	at, _ := slices.BinarySearchFunc(l.parts[i], key, l.order)
	return place{i, at}
}

// get returns the block at a place; nil after the last.
func (l *list) get(p place) *Block {
	if p.part >= len(l.parts) {
		return nil
	}
	return l.parts[p.part][p.at]
}

func (l *list) next(p place) place {
	if p.at++; p.at >= len(l.parts[p.part]) {
		return place{p.part + 1, 0}
	}
	return p
}

// previous returns the preceding place; ok is false at the first.
func (l *list) previous(p place) (to place, ok bool) {
	switch {
	case p.at > 0:
		return place{p.part, p.at - 1}, true
	case p.part > 0:
		return place{p.part - 1, len(l.parts[p.part-1]) - 1}, true
	}
	return p, false
}

func (l *list) insert(b *Block) {
	l.n++
	if len(l.parts) == 0 {
		l.parts, l.spare = append(l.parts, append(l.spare[:0], b)), nil
		return
	}
	p := l.find(b)
	if p.part == len(l.parts) {
		p.part--
		p.at = len(l.parts[p.part])
	}
	part := slices.Insert(l.parts[p.part], p.at, b)
	*l.work += int64(len(part) - p.at)
	l.parts[p.part] = part
	if len(part) > widest {
		half := slices.Clone(part[widest/2:])
		clear(part[widest/2:])
		l.parts[p.part] = part[:widest/2]
		l.parts = slices.Insert(l.parts, p.part+1, half)
		*l.work += int64(len(l.parts) - p.part)
	}
}

func (l *list) remove(p place) {
	l.n--
	part := slices.Delete(l.parts[p.part], p.at, p.at+1)
	*l.work += int64(len(part) - p.at + 1)
	if l.parts[p.part] = part; len(part) == 0 {
		l.spare = part
		l.parts = slices.Delete(l.parts, p.part, p.part+1)
		*l.work += int64(len(l.parts) - p.part + 1)
	}
}

func (l *list) drop(b *Block) { l.remove(l.find(b)) }

func (l *list) blocks() []*Block {
	*l.work += int64(l.n)
	return slices.Concat(l.parts...)
}
