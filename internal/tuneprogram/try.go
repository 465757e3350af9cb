package tuneprogram

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Try is a setting of the user's own: an environment variable, or (Argument) words that replace {Name} in the command.
// The first value of an argument is the unchanged program's.
type Try struct {
	Name     string
	Values   []string
	Argument bool
}

// ParseTry parses NAME=V1,V2 for a variable, and NAME='--flag {V1,V2}' for a command with {NAME}.
func ParseTry(text string, command []string) (Try, error) {
	name, values, ok := strings.Cut(text, "=")
	if !ok || name == "" || values == "" {
		return Try{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading --try %s: it has no name or no values", text).
			WithFix("give a variable as --try NAME=V1,V2, or words as --try 'NAME=--flag {V1,V2}' with {NAME} in the command")
	}
	t := Try{Name: name, Argument: slices.ContainsFunc(command,
		func(word string) bool { return strings.Contains(word, "{"+name+"}") })}
	before, rest, braces := strings.Cut(values, "{")
	inside, after, closed := strings.Cut(rest, "}")
	switch {
	case braces && !closed:
		return Try{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading --try %s: a brace is not closed", text).
			WithFix("give for example --try 'batch=--batch-size {32,64}'")
	case braces && !t.Argument:
		return Try{}, gpuprof.Errorf(gpuprof.ErrUsage, "reading --try %s: the command has no {%s}", text, name).
			WithFix("write {%s} where the words are to stand", name)
	case !braces:
		before, inside, after = "", values, ""
	}
	for _, v := range strings.Split(inside, ",") {
		t.Values = append(t.Values, before+strings.TrimSpace(v)+after)
	}
	if t.Argument && len(t.Values) < 2 {
		return Try{}, gpuprof.Errorf(gpuprof.ErrUsage,
			"reading --try %s: there is one value, and nothing to compare it with", text).
			WithFix("give the value of today first, and then others")
	}
	return t, nil
}

// startValues returns the arguments of the unchanged program, by name.
func (t Try) startValues() map[string]string {
	if !t.Argument {
		return nil
	}
	return map[string]string{t.Name: t.Values[0]}
}

// listSettings returns a setting for each value except the current one, which getenv returns for a variable.
func (t Try) listSettings(getenv func(string) string) (out []Setting) {
	if t.Argument {
		for _, v := range t.Values[1:] {
			out = append(out, Setting{Knob: t.Name, From: t.Values[0], Value: v, Args: map[string]string{t.Name: v},
				Change: Users, Line: "arguments: " + v})
		}
		return out
	}
	from := getenv(t.Name)
	for _, v := range t.Values {
		if v != from {
			out = append(out, Setting{Knob: t.Name, From: from, Value: v, Env: []string{t.Name + "=" + v}, Change: Users,
				Line: "export " + t.Name + "=" + gpuprof.ShellWord(v)})
		}
	}
	return out
}

// fillPlaceholders replaces {NAME} with its value. An argument that is only {NAME} becomes one argument per word.
func fillPlaceholders(command []string, words map[string]string) (out []string) {
	for _, arg := range command {
		alone, is := words[strings.TrimSuffix(strings.TrimPrefix(arg, "{"), "}")]
		if is && strings.HasPrefix(arg, "{") && strings.HasSuffix(arg, "}") {
			out = append(out, strings.Fields(alone)...)
			continue
		}
		for name, v := range words {
			arg = strings.ReplaceAll(arg, "{"+name+"}", v)
		}
		out = append(out, arg)
	}
	return out
}
