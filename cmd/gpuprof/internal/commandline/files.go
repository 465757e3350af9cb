package commandline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// showingVerbs lists the subcommands that can show files. Their flags may precede or follow files without a subcommand.
func showingVerbs() []string {
	return []string{"analyze", "report", "compare", "fleet", "history", "pprof"}
}

// FilesMeant splits a command line without a subcommand into files and flags. ok is false if there is a subcommand, or
// if the first word is no file.
func FilesMeant(root *kong.Node, words []string) (files, flags []string, ok bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !strings.HasPrefix(w, "-") {
			files = append(files, w)
			continue
		}
		flags = append(flags, w)
		if f := flagOfShowing(root, w); f != nil && !f.IsBool() && i+1 < len(words) {
			i++
			flags = append(flags, words[i])
		}
	}
	if len(files) == 0 {
		return nil, nil, false
	}
	verb, at := firstWord(root, words, 0)
	if verb != "" || at >= 0 && isVerb(root, words[at]) || isVerb(root, files[0]) {
		return nil, nil, false
	}
	return files, flags, namesFile(files)
}

func isVerb(root *kong.Node, word string) bool {
	return slices.ContainsFunc(root.Children, func(n *kong.Node) bool { return n.Name == word })
}

// flagOfShowing returns the global flag, or the flag of one of showingVerbs, that a word names; nil if there is none.
func flagOfShowing(root *kong.Node, word string) *kong.Flag {
	if f := FindFlag(root, word); f != nil {
		return f
	}
	for _, verb := range showingVerbs() {
		n := NodeOf(root, verb)
		if n != nil && n.DefaultCmd != nil {
			n = n.DefaultCmd
		}
		if n == nil {
			continue
		}
		if f := FindFlag(n, word); f != nil {
			return f
		}
	}
	return nil
}

// namesFile reports whether the first word is a file to show. An existing file with a known extension, or a folder, is
// one. Other files and words that look like a path are files to show unless they name a program.
func namesFile(words []string) bool {
	name := words[0]
	info, err := os.Stat(name)
	known := slices.Contains(readableExtensions(), strings.ToLower(filepath.Ext(name)))
	if err != nil {
		return (known || strings.ContainsRune(name, filepath.Separator)) && commandIn(words) == nil
	}
	return known || info.IsDir() || commandIn(words) == nil
}

// readableExtensions lists the file extensions of documents that gpuprof can show.
func readableExtensions() []string {
	return []string{".json", ".gz", ".zst", ".sqlite", ".db", ".pb", ".gpt", ".pickle", ".pprof", ".xml", ".txt"}
}
