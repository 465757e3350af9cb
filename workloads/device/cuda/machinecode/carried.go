//go:build windows || (linux && !nodlopen)

package machinecode

import _ "embed"

//go:embed code.tar.zst
var archive []byte
