package document

import (
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// CleanText makes a foreign text fit for one line of a terminal, a log or a report. White space that breaks lines
// becomes a blank. Invalid UTF-8, control characters and format characters (which may reorder text) become U+FFFD. A
// blank is inserted into commands that build servers execute ("##[", "##vso["). Clean text is returned unchanged.
func CleanText(s string) string {
	if !plainText(s) {
		s = strings.Map(cleanRune, s)
	}
	if strings.Contains(s, "##") {
		s = logCommand.ReplaceAllString(s, "$1 [")
	}
	return s
}

// logCommand matches commands that Azure Pipelines, GitHub Actions and TeamCity execute inside a line.
var logCommand = lazyregexp.New(`(##[A-Za-z]*)\[`)

// plainText reports whether a text is printable ASCII, as most names are: then it needs no cleaning.
func plainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func cleanRune(c rune) rune {
	switch {
	case strings.ContainsRune("\t\n\v\f\r\u0085\u2028\u2029", c):
		return ' '
	case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
		return utf8.RuneError
	}
	return c
}

// CleanStrings cleans every string in v, a pointer: in exported and embedded fields, elements, map keys and values,
// interfaces. Foreign documents are cleaned when decoded (decodeJSON), own documents when made, so that a printer need
// not know a field's origin. Earlier names of rules are replaced.
func CleanStrings(v any) {
	c := cleaner{map[reflect.Type]bool{reflect.TypeFor[time.Time](): false}}
	c.cleanValue(reflect.ValueOf(v))
}

// cleaner remembers which types can have a string. It skips lists of samples, which are most of a document.
type cleaner struct{ holds map[reflect.Type]bool }

func (c *cleaner) holdsText(t reflect.Type) bool {
	known, ok := c.holds[t]
	if ok {
		return known
	}
	c.holds[t] = true // for recursive types
	has := false
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		has = true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		has = c.holdsText(t.Elem())
	case reflect.Map:
		has = c.holdsText(t.Key()) || c.holdsText(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			has = isHeld(t.Field(i)) && c.holdsText(t.Field(i).Type) || has
		}
	}
	c.holds[t] = has
	return has
}

// renamed is a value that names a rule. RenameRule replaces an earlier name (gpuprof.Rules) and reports whether it did.
type renamed interface{ RenameRule() bool }

func isHeld(f reflect.StructField) bool { return f.IsExported() || f.Anonymous }

// cleanValue cleans a value in place and reports whether it changed.
func (c *cleaner) cleanValue(v reflect.Value) (changed bool) {
	if !v.IsValid() || !c.holdsText(v.Type()) {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		s := CleanText(v.String())
		if changed = s != v.String() && v.CanSet(); changed {
			v.SetString(s)
		}
	case reflect.Pointer:
		changed = c.cleanValue(v.Elem())
	case reflect.Interface:
		if now, dirty := c.cleanCopy(v.Elem()); dirty && v.CanSet() {
			v.Set(now)
			changed = true
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			changed = c.cleanValue(v.Index(i)) || changed
		}
	case reflect.Map:
		changed = c.cleanMembers(v)
	case reflect.Struct:
		changed = c.cleanFields(v)
	}
	return changed
}

func (c *cleaner) cleanFields(v reflect.Value) (changed bool) {
	for i := range v.NumField() {
		if isHeld(v.Type().Field(i)) {
			changed = c.cleanValue(v.Field(i)) || changed
		}
	}
	if v.CanAddr() && v.CanInterface() { // not for unexported embedded types
		if r, ok := v.Addr().Interface().(renamed); ok {
			changed = r.RenameRule() || changed
		}
	}
	return changed
}

// cleanCopy returns a clean copy of a value that cannot be changed in place.
func (c *cleaner) cleanCopy(v reflect.Value) (own reflect.Value, changed bool) {
	if !v.IsValid() || !c.holdsText(v.Type()) {
		return v, false
	}
	own = reflect.New(v.Type()).Elem()
	own.Set(v)
	return own, c.cleanValue(own)
}

// cleanMembers cleans the keys and values of a map. A cleaned key that another entry has gets a prime, so that no value
// is lost.
func (c *cleaner) cleanMembers(v reflect.Value) (changed bool) {
	keys := v.MapKeys()
	named := v.Type().Key().Kind() == reflect.String
	if named {
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	}
	for _, k := range keys {
		value, dirty := c.cleanCopy(v.MapIndex(k))
		if name := CleanText(k.String()); named && name != k.String() {
			v.SetMapIndex(k, reflect.Value{})
			k, dirty = freeKey(v, name), true
		}
		if dirty {
			v.SetMapIndex(k, value)
			changed = true
		}
	}
	return changed
}

func freeKey(m reflect.Value, name string) reflect.Value {
	key := reflect.New(m.Type().Key()).Elem()
	for key.SetString(name); m.MapIndex(key).IsValid(); {
		name += "'"
		key.SetString(name)
	}
	return key
}
