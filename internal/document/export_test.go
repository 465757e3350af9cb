package document

import "github.com/gpuprof/gpuprof/internal/outside"

// DecodeJSON decodes with the memory that documents may take.
func DecodeJSON(text []byte, v any) error { return decodeJSON(text, v, outside.NewRoom()) }
