package document

import (
	"encoding/json"
	"errors"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// JSONMembers calls each with the members of a JSON object in order, values as slices of text, until each returns
// false. ok reports that text is an object, complete up to the last member read. The functions of this file scan text
// without copying it, since a document may fill the memory limit. They accept any text; json.Valid decides whether it
// is JSON.
func JSONMembers(text []byte, each func(key string, value []byte) bool) (ok bool) {
	i := jsonSpace(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	if i = jsonSpace(text, i+1); i < len(text) && text[i] == '}' {
		return true
	}
	for {
		if i >= len(text) || text[i] != '"' {
			return false
		}
		end := jsonString(text, i)
		if end < 0 {
			return false
		}
		key := jsonKey(text[i:end])
		if i = jsonSpace(text, end); i >= len(text) || text[i] != ':' {
			return false
		}
		i = jsonSpace(text, i+1)
		if end = jsonValue(text, i); end < 0 {
			return false
		}
		if !each(key, text[i:end]) {
			return true
		}
		if i = jsonSpace(text, end); i >= len(text) || text[i] != ',' {
			return i < len(text) && text[i] == '}'
		}
		i = jsonSpace(text, i+1)
	}
}

// JSONElements calls each with the elements of a JSON array; see JSONMembers.
func JSONElements(text []byte, each func(value []byte) bool) (ok bool) {
	i := jsonSpace(text, 0)
	if i >= len(text) || text[i] != '[' {
		return false
	}
	if i = jsonSpace(text, i+1); i < len(text) && text[i] == ']' {
		return true
	}
	for {
		end := jsonValue(text, i)
		if end < 0 {
			return false
		}
		if !each(text[i:end]) {
			return true
		}
		if i = jsonSpace(text, end); i >= len(text) || text[i] != ',' {
			return i < len(text) && text[i] == ']'
		}
		i = jsonSpace(text, i+1)
	}
}

// JSONValue returns the first value of a text and the text after it. The value is empty at the end of the text; an
// incomplete value is the whole text.
func JSONValue(text []byte) (value, rest []byte) {
	i := jsonSpace(text, 0)
	if i >= len(text) {
		return nil, nil
	}
	end := jsonValue(text, i)
	if end <= i {
		return text[i:], nil
	}
	return text[i:end], text[end:]
}

func jsonSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// jsonString returns the index after the string that begins at i; -1 if it does not end.
func jsonString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// jsonValue returns the index after the value that begins at i; -1 if it is incomplete.
func jsonValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return jsonString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				if i = jsonString(b, i); i < 0 {
					return -1
				}
				i--
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return -1
	case ',', ':', ']', '}':
		return -1
	}
	for from := i; ; i++ {
		if i == len(b) {
			return i
		}
		switch b[i] {
		case ',', ':', ']', '}', '[', '{', '"', ' ', '\n', '\t', '\r':
			if i == from {
				return -1
			}
			return i
		}
	}
}

// jsonKey returns the text of a quoted key.
func jsonKey(quoted []byte) string {
	for _, c := range quoted[1 : len(quoted)-1] {
		if c == '\\' || c >= 0x80 {
			var key string
			if json.Unmarshal(quoted, &key) == nil {
				return key
			}
			break
		}
	}
	return string(quoted[1 : len(quoted)-1])
}

// elementBytes is the memory per element of a growing list of parts, bytes.
const elementBytes = 64

// JSONList returns the elements of a JSON array as slices of text. The error is a syntax error or outside.TooLarge.
func JSONList(text []byte, room *outside.Room) ([]json.RawMessage, error) {
	if !json.Valid(text) {
		var none []struct{}
		return nil, json.Unmarshal(text, &none)
	}
	var out []json.RawMessage
	var err error
	ok := JSONElements(text, func(value []byte) bool {
		out = append(out, value[:len(value):len(value)])
		err = room.Take(elementBytes)
		return err == nil
	})
	if err == nil && !ok {
		err = errors.New("it is no list")
	}
	return out, err
}
