package kserve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Limits of a request's JSON, its numbers excepted.
const (
	mostListed     = 16      // elements of a list, and parameters of an object
	mostShortText  = 6 << 10 // bytes of a name: 1024 characters, each as a six-byte escape
	mostParamValue = 1024    // bytes of a parameter's value
)

// tooLong is the error for a part of a request that exceeds its limit.
type tooLong struct {
	what string
	most int
}

// Error implements error.
func (t *tooLong) Error() string { return fmt.Sprintf("%s is longer than %d", t.what, t.most) }

// short is a text of at most mostShortText bytes.
type short string

// UnmarshalJSON implements json.Unmarshaler.
func (s *short) UnmarshalJSON(text []byte) error {
	if len(text) > mostShortText {
		return &tooLong{"a name in it", mostShortText}
	}
	return json.Unmarshal(text, (*string)(s))
}

// list holds the first elements of a JSON array. more means that the array has further elements.
type list[T any] struct {
	first []T
	more  bool
}

func (l *list[T]) countText() string {
	if l.more {
		return "more than " + strconv.Itoa(len(l.first))
	}
	return strconv.Itoa(len(l.first))
}

// UnmarshalJSON implements json.Unmarshaler. text is valid JSON.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = list[T]{}
	if text[0] != '[' {
		return json.Unmarshal(text, &l.first) // null, or the error that names the type
	}
	for rest := text[1:]; ; {
		element, after := nextElement(rest)
		switch {
		case element == nil:
			return nil
		case len(l.first) == mostListed:
			l.more = true
			return nil
		}
		var v T
		if err := json.Unmarshal(element, &v); err != nil {
			return err
		}
		l.first, rest = append(l.first, v), after
	}
}

// parameters holds the members of a JSON object by name.
type parameters map[string]json.RawMessage

// UnmarshalJSON implements json.Unmarshaler. text is valid JSON. If a body repeats the object, the last one counts;
// merging them would allow any number of members.
func (p *parameters) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		for n, rest := 0, text[1:]; ; n++ {
			member, after := nextElement(rest)
			if member == nil {
				break
			}
			if n == mostListed {
				return &tooLong{"a list of parameters", mostListed}
			}
			if len(member) > mostParamValue {
				return &tooLong{"a parameter", mostParamValue}
			}
			rest = after
		}
	}
	*p = nil
	return json.Unmarshal(text, (*map[string]json.RawMessage)(p))
}

// nextElement returns the first element in the remaining text of a valid JSON array or object, and the text after it.
// An element of an object includes its name. At the closing bracket the element is nil.
func nextElement(text []byte) (element, rest []byte) {
	text = bytes.TrimLeft(text, " \t\r\n,")
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}', ',':
			if depth == 0 && i == 0 {
				return nil, nil
			}
			if depth == 0 {
				return bytes.TrimRight(text[:i:i], " \t\r\n"), text[i:]
			}
			if text[i] != ',' {
				depth--
			}
		}
	}
	return nil, nil
}
