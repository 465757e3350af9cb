package main

import (
	"bytes"
	"context"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// rocpd runs `rocpd TRACE DATABASE`: the trace as rocprofv3 would have recorded it.
func rocpd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rocpd TRACE DATABASE")
	}
	tr, err := kineto.Read(context.Background(), bytes.NewReader([]byte(ts.ReadFile(args[0]))), args[0], 0)
	ts.Check(err)
	ts.Check(tracetest.Rocpd(ts.MkAbs(args[1]), tr, "_0000a1b2", false))
}
