package history

import (
	"net/url"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// shortRemote matches git's short form of an ssh remote: "git@github.com:owner/name.git".
var shortRemote = lazyregexp.New(`^(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):([\w.~-]+(?:/[\w.~-]+)+)$`)

// CommitURL returns the web page of a commit on a remote's host, without credentials and port; "" without one.
func CommitURL(remote, id string) string {
	host, path := "", ""
	if m := shortRemote.FindStringSubmatch(remote); m != nil {
		host, path = m[1], m[2]
	} else if u, err := url.Parse(remote); err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "ssh" || u.Scheme == "git") {
		host, path = u.Hostname(), u.Path
	}
	path = strings.Trim(strings.TrimSuffix(strings.Trim(path, "/"), ".git"), "/")
	if !strings.Contains(host, ".") || path == "" || id == "" {
		return ""
	}
	page := "commit"
	if host == "bitbucket.org" {
		page = "commits"
	}
	return (&url.URL{Scheme: "https", Host: host, Path: "/" + path + "/" + page + "/" + id}).String()
}
