package document

import "reflect"

// renamed is a part of a document that names a rule, of whatever version.
type renamed interface{ RenameRule() }

// renameRules gives the rules that v, a pointer, names their present ids
// (gpuprof.Rules): files of earlier versions have others for the same causes.
func renameRules(v any) {
	ruleNames{map[reflect.Type]bool{}}.value(reflect.ValueOf(v))
}

// ruleNames remembers which types can hold a renamed.
type ruleNames struct{ holds map[reflect.Type]bool }

func (n ruleNames) inside(t reflect.Type) bool {
	known, ok := n.holds[t]
	if ok {
		return known
	}
	n.holds[t] = false // for a type inside itself
	has := reflect.PointerTo(t).Implements(reflect.TypeFor[renamed]())
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		has = has || n.inside(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			has = held(t.Field(i)) && n.inside(t.Field(i).Type) || has
		}
	}
	n.holds[t] = has
	return has
}

func (n ruleNames) value(v reflect.Value) {
	if !v.IsValid() || !n.inside(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		n.value(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n.value(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if held(v.Type().Field(i)) {
				n.value(v.Field(i))
			}
		}
		if v.CanAddr() {
			if r, ok := v.Addr().Interface().(renamed); ok {
				r.RenameRule()
			}
		}
	}
}
