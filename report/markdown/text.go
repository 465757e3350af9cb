package markdown

import "strings"

// special are the characters that mean something to Markdown inside a line, or
// to GitHub: mathematics, users, issues, links.
var special = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `\`, `\\`, "`", "&#96;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
	"@", "@\u200b", "#", "\\#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// mention keeps what stands in HTML, where Markdown's marks mean nothing, from
// being a user, an issue or a link.
var mention = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "#", "#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// text makes foreign text inert: no markup, no HTML, no table cell, no link
// and no mention of a user or an issue.
func text(s string) string { return special.Replace(s) }

// code puts text into a code span whose fence is longer than any run of
// back-quotes inside it. It is not for tables, where a bar ends the cell.
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// fenced is a block of code of one line, which hosts give a button to copy it. Its fence is
// longer than any run of back-quotes inside.
func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "sh\n" + s + "\n" + fence
}
