package commandline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Repeats are the further values of flags that may be repeated. kong copies the rest of the command
// line for every flag, and keeps the copy: 20,000 flags would take 6 GB. So it gets each of them
// once.
type Repeats map[*kong.Flag][]string

// TakeRepeats takes the repetitions out of a command line.
func TakeRepeats(root *kong.Node, args []string) (short []string, more Repeats) {
	more = Repeats{}
	node, given := root, map[string]bool{}
	for i := 0; i < len(args); i++ {
		word := args[i]
		if child := NodeOf(node, word); child != nil {
			node = child
		}
		name, value, joined := strings.Cut(word, "=")
		flag := anyFlag(node, name)
		if flag == nil {
			short = append(short, word)
			continue
		}
		words := args[i : i+1]
		if !joined && !flag.IsBool() && !flag.IsCounter() {
			if i+1 == len(args) { // kong says that the value is missing
				return append(short, word), more
			}
			i++
			value, words = args[i], args[i-1:i+1]
		}
		_, repeatable := flag.Target.Interface().([]string)
		switch {
		case !repeatable || !given[flag.Name] || !joined && strings.HasPrefix(value, "-"): // kong refuses some flags as values
			given[flag.Name] = true
			short = append(short, words...)
		default:
			more[flag] = append(more[flag], kong.SplitEscaped(value, flag.Tag.Sep)...)
		}
	}
	return short, more
}

// anyFlag is the flag of a verb or of one around it that a word names, hidden or not; nil for none.
func anyFlag(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

// Add gives the flags their further values, behind those that kong has read.
func (r Repeats) Add() {
	for flag, values := range r {
		if list, is := flag.Target.Addr().Interface().(*[]string); is {
			*list = slices.Concat(*list, values)
		}
	}
}
