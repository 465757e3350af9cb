package child

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Every variable that the git of this machine calls local is left out, and with
// a git that is too old to say those of the list.
func TestWithoutGitsVariables(t *testing.T) {
	t.Parallel()
	said, err := exec.Command("git", "rev-parse", "--local-env-vars").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(said)) {
		for what, ask := range map[string]func() []string{"asked": askGit, "listed": func() []string { return nil }} {
			got := removeLocal([]string{"A=1", name + "=x", "GIT_AUTHOR_NAME=me", "GIT_SSH_COMMAND=ssh"}, ask)
			if !slices.Equal(got, []string{"A=1", "GIT_AUTHOR_NAME=me", "GIT_SSH_COMMAND=ssh"}) {
				t.Errorf("%s, %s: %v", name, what, got)
			}
		}
	}
	if got := removeLocal([]string{"GIT_NEW=1", "B=2"}, func() []string { return []string{"GIT_NEW"} }); !slices.Equal(got, []string{"B=2"}) {
		t.Errorf("a variable of a newer git: %v", got)
	}
	if got := removeLocal([]string{"A=1"}, func() []string { t.Error("git is asked for nothing"); return nil }); len(got) != 1 {
		t.Errorf("without any: %v", got)
	}
}
