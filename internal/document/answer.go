package document

import (
	"reflect"

	"github.com/gpuprof/gpuprof"
)

// answered is a document with an answer; it embeds a gpuprof.Head.
type answered interface {
	Enveloped
	Answer() gpuprof.Answer
}

// WithAnswer returns a copy of a document with its answer in the envelope; a document without an answer unchanged. The
// answer is computed at each writing, since an answer in a file is not trusted.
func WithAnswer(doc any) any {
	if _, ok := doc.(answered); !ok || reflect.ValueOf(doc).IsNil() {
		return doc
	}
	own := reflect.New(reflect.TypeOf(doc).Elem())
	own.Elem().Set(reflect.ValueOf(doc).Elem())
	copied := own.Interface().(answered)
	answer := copied.Answer().Finite()
	copied.Envelope().Answered = &answer
	return copied
}
