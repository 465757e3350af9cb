package document

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

const masked = "***"

// MaskCommand returns a command line that may be stored and shown. "***" replaces the values of arguments and variables
// with names of secrets (--api-key K, --token=T, WANDB_API_KEY=K, curl -u U:P), the user information of URLs, and words
// in the form of known providers' tokens. A secret that is a plain word is not recognised.
func MaskCommand(args []string) []string {
	out := make([]string, len(args))
	said := map[string]bool{} // words so far, which include the programs
	name := ""                // previous argument, if arg may be its value
	for i, arg := range args {
		short, value := shortSecret(said, arg)
		switch {
		case i > 0 && shellFlag.MatchString(args[i-1]) && runsShell(said):
			out[i], name = MaskText(arg), ""
		case name != "" && !flagLike.MatchString(arg) && secretName(name, arg):
			out[i], name = masked, ""
		case short != "" && value != "":
			out[i], name = short+masked, ""
		case short != "":
			out[i], name = arg, "password"
		default:
			out[i], name = maskArgument(arg), ""
			if flagLike.MatchString(arg) {
				name = arg
			}
		}
		said[strings.TrimSuffix(filepath.Base(arg), ".exe")] = true
	}
	return out
}

// MaskText is MaskCommand for a command line in one string.
func MaskText(text string) string {
	words := shellWords.FindAllString(text, -1)
	if len(words) == 1 && words[0] == text { // quotes inside a single word
		words = strings.Fields(text)
	}
	bare := make([]string, len(words))
	for i, w := range words {
		bare[i] = strings.Trim(w, `'"`)
	}
	clean := MaskCommand(bare)
	at := 0
	for i, w := range words {
		at += strings.Index(text[at:], w)
		now := w
		if clean[i] != bare[i] {
			now = strings.Replace(w, bare[i], clean[i], 1)
		}
		text = text[:at] + now + text[at+len(w):]
		at += len(now)
	}
	return maskForms(text)
}

func runsShell(said map[string]bool) bool {
	return slices.ContainsFunc([]string{"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "su"}, func(s string) bool { return said[s] })
}

var (
	shellFlag  = lazyregexp.New(`^-[a-z]*c$`)
	flagLike   = lazyregexp.New(`^--?[A-Za-z][\w.-]*$`)
	assignment = lazyregexp.New(`^([-+~]*[A-Za-z_][\w./@:-]*)=`)
	shellWords = lazyregexp.New(`(?:[^\s'"]|'[^']*'|"(?:[^"\\]|\\.)*"|['"])+`)
)

// maskArgument masks secrets that are recognisable in a single argument.
func maskArgument(arg string) string {
	m := assignment.FindStringSubmatch(arg)
	if m == nil {
		return maskInside(arg)
	}
	value := arg[len(m[0]):]
	switch {
	case secretName(m[1], value):
		value = masked
	case strings.HasPrefix(m[1], "-"): // --env=TOKEN=…
		value = maskArgument(value)
	default:
		value = maskInside(value)
	}
	return maskForms(m[1]) + "=" + value
}

// maskInside masks a value that may be several words, such as a command line for a shell.
func maskInside(text string) string {
	if strings.ContainsAny(text, " \t\n") {
		return MaskText(text)
	}
	return maskForms(text)
}

var (
	// user information of a URL up to the last @ before the host; user:password@host
	userInfo = lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"']*@`)
	userHost = lazyregexp.New(`(^|[\s='"])[\w.+-]+:[^@\s/:"']+@([A-Za-z0-9])`)
	query    = lazyregexp.New(`([?&;])([\w.-]+)=([^&;#\s"']*)`)
	// name: value, in a header or in JSON
	pair = lazyregexp.New(`(["']?)([A-Za-z][\w-]*)(["']?\s*:\s*)((?:(?i:bearer|basic|token)\s+)?)("[^"]*"|'[^']*'|[^\s,}"'/:][^\s,}"']*)`)
	// tokens of GitHub, GitLab, Hugging Face, OpenAI, Slack, AWS and Google, and JSON web tokens
	tokens = lazyregexp.New(`\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`)
)

// MaskLinks masks secrets recognisable in any text: user information and secret parameters of URLs, known tokens.
func MaskLinks(text string) string {
	text = userInfo.ReplaceAllString(text, "${1}"+masked+"@")
	text = userHost.ReplaceAllString(text, "${1}"+masked+"@${2}")
	text = query.ReplaceAllStringFunc(text, func(s string) string {
		m := query.FindStringSubmatch(s)
		if !secretName(m[2], m[3]) {
			return s
		}
		return m[1] + m[2] + "=" + masked
	})
	return tokens.ReplaceAllString(text, masked)
}

func maskForms(text string) string {
	return pair.ReplaceAllStringFunc(MaskLinks(text), func(s string) string {
		m := pair.FindStringSubmatch(s)
		value := strings.Trim(m[5], `'"`)
		if value == "" || !secretName(m[2], value) {
			return s
		}
		return m[1] + m[2] + m[3] + m[4] + strings.Replace(m[5], value, masked, 1)
	})
}

var (
	secretIn = lazyregexp.New(`key|token|secret|passw|passphrase|credential|bearer|cookie`)
	harmless = lazyregexp.New(`tokeni[sz][a-z]*|key(board|point|frame|word)s?|(mon|tur|hoc|don)keys?`)
	quantity = lazyregexp.New(`(^|[^a-z])(num|n|max|min|size|dim|dims|heads|len|length|count|per|batch|limit|rate)([^a-z]|$)`)
	number   = lazyregexp.New(`^[0-9][0-9_.,eE+-]*[kKMG]?$`)
)

// secretName reports whether a name marks its value as secret; a count is none ("--max-tokens 512").
func secretName(name, value string) bool {
	name = strings.ToLower(name)
	words := strings.FieldsFunc(name, func(c rune) bool { return c < 'a' || c > 'z' })
	secret := secretIn.MatchString(harmless.ReplaceAllString(name, "")) || slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{"pass", "passin", "passout", "pwd", "pw", "auth", "authorization", "dsn"}, w)
	})
	counted := quantity.MatchString(name) && number.MatchString(value)
	return secret && !counted
}

// shortSecret splits an argument into a one-letter flag and its secret (mysql -pSECRET); flag is "" for other
// arguments. The set said has the words before arg, among them the program.
func shortSecret(said map[string]bool, arg string) (flag, value string) {
	if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
		return "", ""
	}
	for _, known := range []struct {
		program, letters string
		attached         bool // the secret must be attached
	}{
		{"curl", "uU", false}, {"mysql", "p", true}, {"mysqldump", "p", true}, {"mariadb", "p", true}, {"sshpass", "p", false},
		{"redis-cli", "a", false}, {"ldapsearch", "w", false}, {"login", "p", false}, // login of docker, podman, az
	} {
		if said[known.program] && strings.IndexByte(known.letters, arg[1]) >= 0 && (len(arg) > 2 || !known.attached) {
			return arg[:2], arg[2:]
		}
	}
	return "", ""
}
