package history

import "testing"

func TestCommitURL(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/owner/name.git":           "https://github.com/owner/name/commit/abc",
		"https://user:secret@github.com/owner/name":   "https://github.com/owner/name/commit/abc",
		"git@github.com:owner/name.git":               "https://github.com/owner/name/commit/abc",
		"ssh://git@gitlab.example.org:2222/a/b/c.git": "https://gitlab.example.org/a/b/c/commit/abc",
		"https://bitbucket.org/owner/name":            "https://bitbucket.org/owner/name/commits/abc",
		"/srv/git/name.git":                           "",
		"../name":                                     "",
		"file:///srv/git/name.git":                    "",
		"javascript:alert(1)":                         "",
		"C:/code/name":                                "",
		"https://localhost/name":                      "",
		"":                                            "",
		"https://github.com/owner/<script>alert(1)</script>": "https://github.com/owner/%3Cscript%3Ealert%281%29%3C/script%3E/commit/abc",
	} {
		if got := CommitURL(remote, "abc"); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
	if got := CommitURL("https://github.com/owner/name", ""); got != "" {
		t.Errorf("no commit: %q", got)
	}
}
