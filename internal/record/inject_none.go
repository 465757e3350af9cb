//go:build !linux || (!amd64 && !arm64)

package record

// injectLibrary is empty on systems without the recorder.
var injectLibrary []byte
