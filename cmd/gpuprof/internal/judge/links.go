package judge

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// LinkFlag is the flag --link of the subcommands that make checkouts.
type LinkFlag struct {
	Link []string `json:"link,omitempty" sep:"none" complete:"file" placeholder:"PATH" help:"Make this file or folder of your checkout, which git does not have (.venv, data, a built extension), visible in the other checkouts by a symbolic link; may be repeated."`
}

// Place is a checkout that gpuprof made from the user's own.
type Place struct {
	Top    string // the user's checkout
	Prefix string // path of the current folder in Top, with slashes
	Tree   string // the checkout that gpuprof made
}

// Link links files of the user's checkout into another checkout. Paths are relative to the current folder.
func (c Children) Link(p Place, paths []string) error {
	for _, name := range paths {
		inside := path.Join(p.Prefix, filepath.ToSlash(name))
		from, to := filepath.Join(p.Top, filepath.FromSlash(inside)), filepath.Join(p.Tree, filepath.FromSlash(inside))
		refuse := func(why, fix string) error {
			return gpuprof.Errorf(gpuprof.ErrUsage, "linking %s with --link: %s", name, why).WithFix("%s", fix)
		}
		if filepath.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(inside)) || inside == "." {
			return refuse("it is not inside the checkout "+p.Top, "give a path of the checkout, from the present folder")
		}
		if _, err := os.Stat(from); err != nil {
			return refuse("it is not there", "give a file or folder of this checkout")
		}
		if _, err := os.Lstat(to); err == nil {
			continue // git has the file at that commit, or it is linked already
		}
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if err == nil {
			err = os.Symlink(from, to)
		}
		if err != nil {
			return gpuprof.Errorf(nil, "linking %s into the checkout %s: %w", name, p.Tree, err).WithFix("check TMPDIR")
		}
	}
	return nil
}

// EditableInstall returns the .pth file in a linked virtual environment that puts a folder of the user's checkout on
// Python's path; "" if there is none. With it, the other checkout would import the user's modules.
func EditableInstall(p Place, paths []string) string {
	for _, name := range paths {
		venv := filepath.Join(p.Top, filepath.FromSlash(p.Prefix), name)
		for _, file := range outside.Dir(venv).Glob("lib/python*/site-packages/*.pth") {
			text, err := outside.ReadFound(file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				if rel, err := filepath.Rel(p.Top, strings.TrimSpace(line)); err == nil && filepath.IsAbs(strings.TrimSpace(line)) && filepath.IsLocal(rel) {
					return file
				}
			}
		}
	}
	return ""
}

// EditableWarning returns the warning that both sides may import the same modules. file is the .pth file that causes
// it.
func EditableWarning(file string) gpuprof.Warning {
	return gpuprof.Warning{Code: "editable-install", Text: file + " puts modules of this checkout on Python's path: unless the program finds its own first, the other checkout runs the code of this one",
		Fix: "let the program's own folder come first, for example with env PYTHONPATH=. before the command"}
}

// mostLacking limits the missing files that an error lists.
const mostLacking = 4

// listLacking lists the user's files that a checkout lacks because git does not track them, relative to the current
// folder. Files that words, the failed program's message, names come first; named is their number. Virtual environments
// come next.
func (c Children) listLacking(p Place, words string) (all []string, named int) {
	out, err := c.Git(p.Top, "--no-optional-locks", "status", "--porcelain", "-z", "--ignored", "--untracked-files=normal")
	if err != nil {
		return nil, 0
	}
	weight := map[string]int{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		code, file, ok := strings.Cut(entry, " ")
		if !ok || code != "??" && code != "!!" || strings.HasSuffix(file, "__pycache__/") || strings.HasSuffix(file, ".pyc") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(p.Tree, filepath.FromSlash(strings.TrimSuffix(file, "/")))); err == nil {
			continue
		}
		shown, err := filepath.Rel(filepath.FromSlash("/"+p.Prefix), filepath.FromSlash("/"+strings.TrimSuffix(file, "/")))
		if err != nil {
			continue
		}
		base := path.Base(file)
		stem, _, _ := strings.Cut(base, ".")
		switch {
		case len(base) > 2 && strings.Contains(words, base), len(stem) > 1 && strings.Contains(words, "'"+stem+"'"), len(stem) > 1 && strings.Contains(words, "."+stem+"'"):
			weight[shown] = 2
			named++
		case pathExists(filepath.Join(p.Top, filepath.FromSlash(file), "pyvenv.cfg")):
			weight[shown] = 1
		}
		all = append(all, shown)
	}
	slices.SortStableFunc(all, func(a, b string) int { return weight[b] - weight[a] })
	return all, named
}

func pathExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// WithLacking adds to err, the error of a program that failed in the checkout p, which of the user's files this
// checkout lacks. name is the checkout's name for messages.
func (c Children) WithLacking(name string, p *Place, err error) error {
	if p == nil || err == nil || errors.Is(err, cli.ErrInterrupted) {
		return err
	}
	why, fix := gpuprof.FixOf(err)
	all, named := c.listLacking(*p, why)
	if len(all) == 0 {
		return err
	}
	more := ""
	if n := len(all) - mostLacking; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	give := "--link PATH for what it needs of them"
	switch {
	case named > 0 && slices.Contains([]string{".so", ".pyd", ".dll"}, filepath.Ext(all[0])): // built from one side's sources
		give = fmt.Sprintf("--build COMMAND that makes it, or --link %s, with which both sides run the one of this checkout", gpuprof.ShellWord(all[0]))
	case named > 0 || pathExists(filepath.Join(p.Top, filepath.FromSlash(p.Prefix), all[0], "pyvenv.cfg")):
		give = "--link " + gpuprof.ShellWord(all[0])
	}
	if fix != "" {
		fix = ", or " + fix
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "%s (the checkout of %s lacks %s%s, which git does not have)", why, name, strings.Join(all[:min(len(all), mostLacking)], ", "), more).
		WithFix("give %s%s", give, fix)
}
