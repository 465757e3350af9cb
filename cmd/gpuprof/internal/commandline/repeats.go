package commandline

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Repeats has the occurrences of repeatable flags, in order. For every flag, kong copies the remaining command line and
// keeps the copy: 20,000 flags would take 6 GB. Therefore kong gets only the first occurrence of a repeatable flag, and
// Add restores the values of the others. Kong also gets two other kinds of occurrence. One follows an argument
// directly: there the flag ends a list of arguments. The other has a separate value with a leading hyphen: kong refuses
// the value if it is a flag.
type Repeats map[*kong.Flag][]occurrence

// occurrence is one use of a flag. left is the number of values that kong reads; taken has the values that kong does
// not see.
type occurrence struct {
	left  int
	taken []string
}

// TakeRepeats removes repeated flags from a command line. short has the words for kong to parse; more has all
// occurrences of flags.
func TakeRepeats(root *kong.Node, args []string) (short []string, more Repeats) {
	more = Repeats{}
	node, given, behindArgument := root, map[string]bool{}, false
	for i := 0; i < len(args); i++ {
		word := args[i]
		if child := NodeOf(node, word); child != nil {
			node = child
		}
		flag, value, joined := splitFlag(node, word)
		if flag == nil {
			short, behindArgument = append(short, word), true
			continue
		}
		words := args[i : i+1]
		if !joined && !flag.IsBool() && !flag.IsCounter() {
			if i+1 == len(args) { // kong reports the missing value
				return append(short, word), more
			}
			i++
			value, words = args[i], args[i-1:i+1]
		}
		_, repeatable := flag.Target.Interface().([]string)
		values := kong.SplitEscaped(value, flag.Tag.Sep)
		switch {
		case !repeatable || !given[flag.Name] || behindArgument || !joined && strings.HasPrefix(value, "-"): // see Repeats
			given[flag.Name], behindArgument = true, false
			short = append(short, words...)
			more[flag] = append(more[flag], occurrence{left: len(values)})
		default:
			more[flag] = append(more[flag], occurrence{taken: values})
		}
	}
	return short, more
}

// splitFlag returns the flag that a word names; nil for other words. joined reports that the word also has the flag's
// value: --output=FILE or -oFILE.
func splitFlag(node *kong.Node, word string) (flag *kong.Flag, value string, joined bool) {
	name, value, joined := strings.Cut(word, "=")
	if flag = anyFlag(node, name); flag != nil || len(word) < 3 {
		return flag, value, joined
	}
	if flag = anyFlag(node, word[:2]); flag == nil || flag.IsBool() || flag.IsCounter() { // -vq are two flags
		return nil, "", false
	}
	return flag, word[2:], true
}

// anyFlag returns the flag, also a hidden one, of a subcommand or its parents that a word names; nil if there is none.
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

// Add inserts the removed values between the values that kong has read, in their order.
func (r Repeats) Add() {
	for flag, all := range r {
		list, is := flag.Target.Addr().Interface().(*[]string)
		if !is || !slices.ContainsFunc(all, func(o occurrence) bool { return len(o.taken) > 0 }) {
			continue
		}
		read := *list
		values := make([]string, 0, len(read)+len(all))
		for _, o := range all {
			n := min(o.left, len(read))
			values, read = append(append(values, read[:n]...), o.taken...), read[n:]
		}
		*list = values
	}
}
