//go:build nodlopen

package dynlib

// Unable says why this build loads no library; empty where it does.
const Unable = "this is the static build of gpuprof, which loads no shared library and so reaches no GPU"
