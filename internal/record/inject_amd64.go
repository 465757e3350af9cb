//go:build linux

package record

import _ "embed"

//go:embed inject/gpuprof-cuda-amd64.so
var injectLibrary []byte
