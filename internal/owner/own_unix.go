//go:build unix

package owner

import (
	"io/fs"
	"os"
	"syscall"
)

// IsOwn reports whether a file belongs to this user.
func IsOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
