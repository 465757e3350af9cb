package runfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// Every format carries a mark of its own kind by which gpuprof knows its own
// files again. A file that only mentions the program does not have it.

// Marker is the text of the mark where a format has comments.
const Marker = "written by gpuprof"

// textMarker is the first line that Write puts into the text formats; the
// renderers leave it out because they also print to terminals.
func textMarker(f Format) string {
	switch f.Name {
	case "markdown":
		return "<!-- " + Marker + " -->\n\n"
	case "table", "bench":
		return "# " + Marker + "\n\n"
	}
	return ""
}

const headBytes = 8 << 10

// writtenByUs looks for the mark. A file that cannot be parsed is not ours.
func writtenByUs(path string, f Format) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	switch f.Name {
	case "json", "perfetto":
		return ourJSON(file, f), nil
	case "pprof":
		return ourProfile(file), nil
	}
	head, err := io.ReadAll(io.LimitReader(file, headBytes))
	if err != nil {
		return false, err
	}
	switch f.Name {
	case "html":
		return ourHTML(head), nil
	case "png":
		return ourPNG(head), nil
	case "svg", "junit":
		return ourSVG(head), nil
	}
	return bytes.HasPrefix(head, []byte(strings.TrimRight(textMarker(f), "\n"))), nil
}

// ourJSON holds when the object, or the first of a list, has a schema version
// and names gpuprof as its tool. Values on the way are skipped, not kept.
func ourJSON(r io.Reader, f Format) bool {
	plain, done, err := unfold(r, f)
	if err != nil {
		return false
	}
	defer done()
	dec := json.NewDecoder(io.LimitReader(plain, maxRunBytes))
	first, err := dec.Token()
	if first == json.Delim('[') {
		first, err = dec.Token()
	}
	if err != nil || first != json.Delim('{') {
		return false
	}
	version, tool := "", ""
	for dec.More() && (version == "" || tool == "") {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
		switch key {
		case "schema_version":
			_ = json.Unmarshal(value, &version)
		case "tool":
			var t struct{ Name string }
			_ = json.Unmarshal(value, &t)
			tool = t.Name
		}
	}
	return version != "" && tool == "gpuprof"
}

func ourProfile(r io.Reader) bool {
	p, err := profile.Parse(io.LimitReader(r, maxRunBytes))
	if err != nil {
		return false
	}
	for _, c := range p.Comments {
		if strings.HasPrefix(c, Marker) {
			return true
		}
	}
	return false
}

var (
	htmlComment = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)
	htmlBody    = regexp.MustCompile(`(?i)<(body|script|title|style)[\s>]`)
	generator   = regexp.MustCompile(`(?i)<meta\s+name="generator"\s+content="gpuprof[ "]`)
	svgMark     = regexp.MustCompile(`^(\s*<\?xml[^>]*\?>)?\s*<!-- ` + Marker + `\b`)
)

// ourHTML wants the generator element in the head, before anything that
// could quote it.
func ourHTML(head []byte) bool {
	head = htmlComment.ReplaceAll(head, nil)
	if at := htmlBody.FindIndex(head); at != nil {
		head = head[:at[0]]
	}
	return generator.Match(head)
}

// ourSVG wants the comment before the root element, as in all our XML.
func ourSVG(head []byte) bool { return svgMark.Match(head) }

// ourPNG walks the chunks before the picture data for Software=gpuprof.
func ourPNG(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte("\x89PNG\r\n\x1a\n"))
	for ok && len(rest) >= 12 {
		n := binary.BigEndian.Uint32(rest)
		kind := string(rest[4:8])
		if kind == "IDAT" || uint64(n)+12 > uint64(len(rest)) {
			return false
		}
		if text, is := bytes.CutPrefix(rest[8:8+n], []byte("Software\x00")); is && kind == "tEXt" {
			name, _, _ := strings.Cut(string(text), " ")
			return name == "gpuprof"
		}
		rest = rest[12+n:]
	}
	return false
}
