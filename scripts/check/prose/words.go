package main

// word is a discouraged wording, as a regular expression, and the better wording.
type word struct{ pattern, better string }

// In a rate such as "3 launches a step", counted matches the noun or unit and "a", and over matches the word after "a".
const (
	counted = `(?:%[-+.\d]*[vdsfg]|\b(?:[nuµm]?s|J|W|\d[\d,.]*|once|twice|time|energy|bytes?|flops|copies|reads?|launches|calls?|points?|samples?|` +
		`values?|probes?|edges?|weights?|atomics?|waits?|syncs?|switches|preemptions|faults|operations|seconds?|joules?|milliseconds|microseconds|` +
		`times|runs?|processes|pairs?|blocks?|threads?|batch(?:es)?|events?|files?|rows?|columns?|lists?|lanes?|terms|words?|spans?|sessions?|` +
		`graphs?|sync points|synchroni[sz]ations|instructions|registers|memory|writer|kernel|lines?|copied)) an? `
	over = `(?:step|second|minute|epoch|edge|batch|rank|side|process|block|row|layer|launch|kernel|operation|pair|probe|point|sample|call|unit|` +
		`segment|multiplicity|doubling|device|worker|turn|GPU|thread|warp|scheduler|metric|setting|stage|knob|destination|value)\b`
)

var words = [...]word{
	{`\bmend(?:s|ed|ing)?\b`, "fix"},
	{`\bquieten\w*|\bquiet(?:er)? machine`, "stop the other programs; an idle machine"},
	{`\b(?:[Nn]obody|[Ss]omebody|[Nn]o one)\b`, "name the subject: the user, another program, the driver"},
	{`\bto be believed\b|\bcan be believed\b`, "reliable, unreliable"},
	{`\bto win\b|\b(?:can|could|would) win\b`, "save; the largest possible saving"},
	{`\b(?:give[sn]?|gave|giving) (?:it |them |memory |what is idle )?back\b`, "free, release, return"},
	{`\b(?:pay|pays|paid|paying) (?:from|for)\b`, "cost, take from"},
	{`\banew\b`, "again"},
	{`\bto be had\b`, "available"},
	{`\bforemost\b`, "first"},
	{`\bstood? beside\b|\bstands? beside\b`, "is printed with"},
	{`\btakes? along\b`, "include"},
	{`\blets? go of\b`, "release"},
	{`\bas far as there (?:is|are)\b`, "if there is"},
	{`\b[Cc]eilings?\b`, "peak rate"},
	{`(?:^|[^-\w])floors?\b`, "roofline bound"},
	{`\b[Ss]ynchronis`, "synchroniz…"},
	{`\b[Tt]he caller\b|\bcaller's\b`, "the host thread"},
	{counted + over, `"per" for a rate`},
	{`(?:^|[.!?] )(?:What|Whatever|Whoever|Who|Nothing|Where)(?: [^ .?!:]+){4,}[^?]*\.`, "name the subject; if, when"},
	{`[;:,] (?:and )?(?:what|whoever|nothing) (?:is|are|was|were|it|they) `, "name the subject"},
	{`[;:] where `, "if, when; or name the subject"},
}

// exception is a text that may keep its wording, with the reason.
type exception struct{ file, text, reason string }

var exceptions = [...]exception{}
