package markdown

import "strings"

// special are the characters that mean something to Markdown inside a line, or
// to GitHub: mathematics, users, issues, links.
var special = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `\`, `\\`, "`", "&#96;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`,
	"@", "@\u200b", "#", "\\#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// mention escapes text inside HTML, where Markdown's marks have no effect: it must not mention a user or an issue or
// become a link.
var mention = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "#", "#\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// escapeText makes foreign text inert: no markup, no HTML, no table cell, no link and no mention of a user or an issue.
func escapeText(s string) string { return special.Replace(s) }

// inlineCode puts text into a code span whose fence is longer than any run of back-quotes inside it. It is not for
// tables, where a bar ends the cell.
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

// codeBlock puts one line into a block of code, to which hosts add a button for copying. The fence is longer than any
// run of back-quotes inside.
func codeBlock(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "sh\n" + s + "\n" + fence
}
