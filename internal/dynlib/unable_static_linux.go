//go:build nodlopen

package dynlib

// Unable is the reason why this build loads no library.
const Unable = "this is the static build of gpuprof, which loads no shared library and so reaches no GPU"
