package commandline

import (
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// StandardInput replaces "-" by outside.Stdin, the name of standard input, in arguments and flags for input files. Only
// one of them may be "-".
func StandardInput(kctx *kong.Context) error {
	reads := 0
	take := func(v reflect.Value) {
		if v.String() == "-" {
			v.SetString(outside.Stdin)
		}
		if v.String() == outside.Stdin {
			reads++
		}
	}
	seen := map[*kong.Value]bool{}
	for _, p := range kctx.Path {
		v := p.Positional
		if p.Flag != nil {
			v = p.Flag.Value
		}
		if v == nil || seen[v] || v.Tag == nil || v.Tag.Get("complete") != "file" || v.Name == "output" {
			continue
		}
		seen[v] = true
		switch {
		case v.Target.Kind() == reflect.String:
			take(v.Target)
		case v.Target.Kind() == reflect.Slice && v.Target.Type().Elem().Kind() == reflect.String:
			for i := range v.Target.Len() {
				take(v.Target.Index(i))
			}
		}
	}
	if reads > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line: standard input is given %d times and can be read once", reads).WithFix("give the other files by their names")
	}
	return nil
}
