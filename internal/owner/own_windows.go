package owner

import "io/fs"

// IsOwn reports whether a file belongs to this user; a temporary folder on Windows belongs to one user.
func IsOwn(fs.FileInfo) bool { return true }
