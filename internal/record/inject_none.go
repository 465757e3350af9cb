//go:build !linux || (!amd64 && !arm64)

package record

// injectLibrary is empty where the recorder is not built for.
var injectLibrary []byte
