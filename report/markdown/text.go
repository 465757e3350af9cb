package markdown

import "strings"

// special escapes characters with a meaning inside a line, in Markdown or on GitHub (mathematics, users, issues,
// links).
var special = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `\`, `\\`, "`", "&#96;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
	"@", "@\u200b", "#", "\\#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// mention escapes text inside HTML: no HTML, no mention of a user or issue, no link.
var mention = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "#", "#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// escapeText makes foreign text inert: no markup, HTML, table cell, link, or mention of a user or issue.
func escapeText(s string) string { return special.Replace(s) }

// inlineCode makes a code span, with a fence longer than any in the text. In a table, a "|" in the text would end the
// cell.
func inlineCode(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// codeBlock makes a code block of one line, with a fence longer than any in the text.
func codeBlock(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "sh\n" + s + "\n" + fence
}
