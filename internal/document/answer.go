package document

import (
	"reflect"

	"github.com/gpuprof/gpuprof"
)

// answered is a document that opens with an answer. It embeds a gpuprof.Head.
type answered interface {
	Enveloped
	Answer() gpuprof.Answer
}

// WithAnswer returns a copy of a document with its answer in the envelope, as JSON has it. A document without an
// answer comes back unchanged. The answer is derived from the document at each writing; an answer read from a file
// is not trusted.
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
