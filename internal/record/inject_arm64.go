//go:build linux

package record

import _ "embed"

//go:embed inject/gpuprof-cuda-arm64.so
var injectLibrary []byte
