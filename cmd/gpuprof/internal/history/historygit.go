package history

import (
	"errors"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// hexCommit matches a commit's ID or its first digits.
var hexCommit = lazyregexp.New(`^[0-9a-f]{7,64}$`)

// commitOf returns the commit ID of a revision. Outside of the revision's repository, only the hexadecimal digits of a
// commit are accepted.
func commitOf(c judge.Children, revision string) (string, error) {
	if id, err := c.Revision("", revision); err == nil || errors.Is(err, cli.ErrInterrupted) {
		return id, err
	}
	if hexCommit.MatchString(revision) {
		return revision, nil
	}
	return "", gpuprof.Errorf(gpuprof.ErrUsage, "finding the commit %s: it is no revision of this checkout", revision).WithFix("give a branch, tag or commit (a shallow clone may lack it), or seven digits of a commit or more")
}

// measuredCommit returns the given commit. If none is given, it returns the commit checked out here, with Dirty set if
// tracked files differ from it.
func measuredCommit(c judge.Children, given string) (out history.Commit, err error) {
	if given == "" {
		out.ID, err = c.Revision("", "HEAD")
		if errors.Is(err, cli.ErrInterrupted) {
			return out, err
		}
		if err != nil {
			return history.Commit{}, nil // no checkout, or no commit yet
		}
		out.Dirty = c.Differs("")
		if branch, err := c.Git("", "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
			out.Branch = strings.TrimSpace(string(branch))
		}
	} else if out.ID, err = commitOf(c, given); err != nil {
		return out, err
	}
	if text, err := c.Git("", "show", "--no-patch", "--format=%ct%x00%an%x00%s", out.ID); err == nil {
		fillCommit(&out, string(text))
		if remote, err := c.Git("", "config", "--get", "remote.origin.url"); err == nil {
			out.URL = history.CommitURL(strings.TrimSpace(string(remote)), out.ID)
		}
	}
	return out, nil
}

// fillCommit sets a commit's time, author and subject from a text that separates them by zero bytes.
func fillCommit(c *history.Commit, text string) {
	parts := strings.SplitN(strings.TrimSpace(text), "\x00", 3)
	if s, err := strconv.ParseInt(parts[0], 10, 64); err == nil {
		c.Time = time.Unix(s, 0).UTC()
	}
	if len(parts) == 3 {
		c.Author, c.Subject = parts[1], parts[2]
	}
}

// projectName returns the name of the remote repository, or of the checkout's folder without a remote, or "default".
func projectName(c judge.Children) string {
	if out, err := c.Git("", "config", "--get", "remote.origin.url"); err == nil {
		if name := strings.TrimSuffix(path.Base(strings.ReplaceAll(strings.TrimSpace(string(out)), "\\", "/")), ".git"); name != "" && name != "." && name != "/" {
			return name[strings.LastIndexByte(name, ':')+1:]
		}
	}
	if top, _, err := c.Checkout(); err == nil {
		return filepath.Base(top)
	}
	return "default"
}
