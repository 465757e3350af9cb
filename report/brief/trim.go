package brief

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// list is a list of a document that is being shortened.
type list struct {
	name  string
	sizes []int   // size of each item as JSON with its comma, bytes
	share float64 // share of the free bytes that the list may take before the other lists
	keep  int     // number of items kept
	cut   func(n int)
}

func listOf[T any](name string, items *[]T, share float64) *list {
	l := &list{name: name, share: share, cut: func(n int) { *items = (*items)[:n:n] }}
	for i := range *items {
		text, err := document.EncodeLine((*items)[i])
		if err != nil { // no type of this package fails to encode
			text = nil
		}
		l.sizes = append(l.sizes, len(text)+1)
	}
	return l
}

// keepItems keeps further items while they fit into room, the bytes left in the document, and into limit, the bytes
// that this list may take. It returns the remaining room.
func (l *list) keepItems(room, limit int) int {
	for l.keep < len(l.sizes) && l.sizes[l.keep] <= min(room, limit) {
		room -= l.sizes[l.keep]
		limit -= l.sizes[l.keep]
		l.keep++
	}
	return room
}

// Trim returns the document shortened to a number of tokens: it cuts lists, and LeftOut counts the cut items. Findings
// come first, but leave a part to every other list. The head is never cut, even if tokens is below
// document.LeastTokens.
func (d *Document) Trim(tokens int) *Document {
	out := *d
	lists := []*list{
		listOf("findings", &out.Findings, 0.6),
		listOf("outcomes", &out.Outcomes, 0.4),
		listOf("metrics", &out.Metrics, 0.4),
		listOf("checks", &out.Checks, 0.9),
		listOf("explanations", &out.Explanations, 1),
		listOf("warnings", &out.Warnings, 0.2),
		listOf("next", &out.Next, 0.15),
		listOf("explained", &out.Explained, 0.2),
	}
	room := tokens*document.BytesPerToken - d.headBytes(lists)
	for _, l := range lists {
		room = l.keepItems(room, int(l.share*float64(room)))
	}
	for _, l := range lists {
		room = l.keepItems(room, room)
	}
	left := []LeftOut{}
	for _, l := range lists {
		if n := len(l.sizes) - l.keep; n > 0 {
			left = append(left, LeftOut{What: l.name, Count: n})
		}
		l.cut(l.keep)
	}
	out.LeftOut = slices.Concat(left, d.LeftOut)
	return &out
}

// headBytes returns the size of the document without any list item, bytes.
func (d *Document) headBytes(lists []*list) int {
	head := *d
	head.Findings, head.Outcomes, head.Metrics, head.Checks = []Finding{}, nil, nil, nil
	head.Explanations, head.Explained, head.Warnings, head.Next = nil, nil, []gpuprof.Warning(nil), nil
	head.LeftOut = nil
	names := 1 // 1 for the line break
	for _, l := range lists {
		if len(l.sizes) > 0 {
			head.LeftOut = append(head.LeftOut, LeftOut{What: l.name, Count: len(l.sizes)})
			names += len(l.name) + len(`,"":[]`)
		}
	}
	head.LeftOut = append(head.LeftOut, d.LeftOut...)
	text, err := document.EncodeLine(&head)
	if err != nil { // no type of this package fails to encode
		return names
	}
	return len(text) + names
}
