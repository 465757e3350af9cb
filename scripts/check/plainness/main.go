// Command plainness counts by package the comments and names that a reader of Go must read twice: comment blocks with
// question words as nouns, with references that name nothing, or with code as a speaker, and functions named by one
// lower-case word or a preposition. `make lint` runs it in the repository's root. It exits 1 if a package exceeds both
// the limits and its line in exceptions.txt. `-update` rewrites that file without raising a number in it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const exceptionsFile = "scripts/check/plainness/exceptions.txt"

// kind is a readability problem, with the permitted share of blocks or functions.
type kind struct {
	name  string
	limit float64
}

var kinds = [...]kind{{"is-what", 0.02}, {"pointer", 0.02}, {"speaking", 0.02}, {"one-word", 0.20}, {"prepositional", 0.01}}

// The first commentKinds kinds count comment blocks, the kinds after them functions.
const commentKinds = 3

type counts [len(kinds)]int

// room has the counts of a package: its comment blocks and functions, and in found how many have each problem.
type room struct {
	blocks, functions int
	found             counts
}

// allowance returns how many cases of a kind the limits permit in a package: at least one, even in a small package.
func (r *room) allowance(k int) int {
	of := r.functions
	if k < commentKinds {
		of = r.blocks
	}
	return max(1, int(math.Floor(kinds[k].limit*float64(of))))
}

func main() {
	update := flag.Bool("update", false, "write the exceptions again; no number in them rises")
	flag.Parse()
	if err := run(os.DirFS("."), *update); err != nil {
		fmt.Fprintln(os.Stderr, "plainness:", err)
		os.Exit(1)
	}
}

func run(root fs.FS, update bool) error {
	rooms, err := countRooms(root)
	if err != nil {
		return err
	}
	known, err := readExceptions(root)
	if err != nil {
		return err
	}
	if update {
		return os.WriteFile(exceptionsFile, []byte(newExceptions(rooms, known)), 0o644)
	}
	found := compareLimits(rooms, known)
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		return fmt.Errorf("%d counts are above their limits; rewrite what `git diff` added, by CONTRIBUTING.md, Language", len(found))
	}
	return nil
}

// compareLimits lists counts above their limits, and unused exceptions.
func compareLimits(rooms map[string]*room, known map[string]counts) []string {
	var out []string
	for _, folder := range slices.Sorted(maps.Keys(rooms)) {
		r := rooms[folder]
		for k := range kinds {
			if limit := max(r.allowance(k), known[folder][k]); r.found[k] > limit {
				out = append(out, fmt.Sprintf("%s: %d %s, at most %d", folder, r.found[k], kinds[k].name, limit))
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(known)) {
		if rooms[folder] == nil {
			out = append(out, fmt.Sprintf("%s: %s names a folder without Go; remove the line", folder, exceptionsFile))
		}
	}
	return out
}

// newExceptions formats the counts above the limits. No number exceeds the one in the folder's present line.
func newExceptions(rooms map[string]*room, known map[string]counts) string {
	var b strings.Builder
	b.WriteString("# Packages above the limits of scripts/check/plainness, with their counts. Numbers only fall: `go run ./scripts/check/plainness -update`.\n#")
	for _, k := range kinds {
		b.WriteString(" " + k.name)
	}
	b.WriteByte('\n')
	for _, folder := range slices.Sorted(maps.Keys(rooms)) {
		r := rooms[folder]
		line, above := folder, false
		for k := range kinds {
			n := r.found[k]
			if old, ok := known[folder]; ok || len(known) > 0 {
				n = min(n, max(old[k], r.allowance(k)))
			}
			if n <= r.allowance(k) {
				n = 0
			}
			above = above || n > 0
			line += " " + strconv.Itoa(n)
		}
		if above {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func readExceptions(root fs.FS) (map[string]counts, error) {
	out := map[string]counts{}
	text, err := fs.ReadFile(root, exceptionsFile)
	if err != nil {
		return nil, fmt.Errorf("reading the packages that may be above the limits: %w", err)
	}
	for n, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 1+len(kinds) {
			return nil, fmt.Errorf("%s:%d has %d words; write a folder and %d numbers", exceptionsFile, n+1, len(words), len(kinds))
		}
		var c counts
		for k := range kinds {
			if c[k], err = strconv.Atoi(words[1+k]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", exceptionsFile, n+1, err)
			}
		}
		out[words[0]] = c
	}
	return out, nil
}

// countRooms counts hand-written production Go by folder, without tests and test support.
func countRooms(root fs.FS) (map[string]*room, error) {
	rooms := map[string]*room{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (name[0] == '.' || slices.Contains([]string{"testdata", "testkit", "node_modules"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if strings.Contains(string(text[:min(len(text), 400)]), "Code generated") {
			return nil
		}
		folder := path.Dir(p)
		if rooms[folder] == nil {
			rooms[folder] = &room{}
		}
		rooms[folder].addFile(string(text))
		return nil
	})
	return rooms, err
}

var function = regexp.MustCompile(`^func (\([^)]*\) )?([A-Za-z_0-9]+)`)

func (r *room) addFile(text string) {
	var block []string
	end := func() {
		if len(block) > 0 {
			r.addBlock(strings.Join(block, " "))
			block = nil
		}
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := function.FindStringSubmatch(lines.Text()); m != nil {
			r.addFunction(m[2])
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "// "); ok {
			block = append(block, rest)
		} else {
			end()
		}
	}
	end()
}
