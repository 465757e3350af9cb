package document_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/document"
)

func TestMaskCommand(t *testing.T) {
	for _, c := range []struct{ line, want []string }{
		{[]string{"python", "train.py", "--lr", "0.1"}, nil},
		{[]string{"python", "train.py", "--api-key", "S3CRET"}, []string{"python", "train.py", "--api-key", "***"}},
		{[]string{"x", "--token=S3CRET", "--wandb_key", "S3CRET", "-key=S3CRET"}, []string{"x", "--token=***", "--wandb_key", "***", "-key=***"}},
		{[]string{"x", "--dbPassword", "S3CRET", "--APIKey=S3CRET", "--hf-token-file=S3CRET"}, []string{"x", "--dbPassword", "***", "--APIKey=***", "--hf-token-file=***"}},
		{[]string{"env", "WANDB_API_KEY=S3CRET", "HF_TOKEN=S3CRET", "PGPASSWORD=S3CRET", "A=b"}, []string{"env", "WANDB_API_KEY=***", "HF_TOKEN=***", "PGPASSWORD=***", "A=b"}},
		{[]string{"docker", "run", "-e", "TOKEN=S3CRET", "--env=SECRET=S3CRET", "-p", "80:80"}, []string{"docker", "run", "-e", "TOKEN=***", "--env=SECRET=***", "-p", "80:80"}},
		{[]string{"x", "+wandb.api_key=S3CRET", "trainer.max_steps=10"}, []string{"x", "+wandb.api_key=***", "trainer.max_steps=10"}},
		{[]string{"x", "--db", "postgres://u:S3CRET@host:5/db", "https://S3CRET@h/p", "git@host:repo"}, []string{"x", "--db", "postgres://***@host:5/db", "https://***@h/p", "git@host:repo"}},
		{[]string{"x", "--url=https://h/p?api_key=S3CRET&n=1"}, []string{"x", "--url=https://h/p?api_key=***&n=1"}},
		{[]string{"x", "--proxy", "u:S3CRET@host:80"}, []string{"x", "--proxy", "***@host:80"}},
		{[]string{"curl", "-u", "u:S3CRET", "-H", "Authorization: Bearer S3CRET", "-H", "X-Api-Key: S3CRET"}, []string{"curl", "-u", "***", "-H", "Authorization: Bearer ***", "-H", "X-Api-Key: ***"}},
		{[]string{"mysql", "-pS3CRET", "-h", "host"}, []string{"mysql", "-p***", "-h", "host"}},
		{[]string{"sshpass", "-p", "S3CRET", "ssh", "host"}, []string{"sshpass", "-p", "***", "ssh", "host"}},
		{[]string{"sh", "-c", "HF_TOKEN=S3CRET python t.py --password 'S3CRET S3CRET' --n 3"}, []string{"sh", "-c", "HF_TOKEN=*** python t.py --password '***' --n 3"}},
		{[]string{"x", `{"api_key": "S3CRET", "n": 1}`}, []string{"x", `{"api_key": "***", "n": 1}`}},
		{[]string{"x", "hf_" + strings.Repeat("a", 30), "ghp_" + strings.Repeat("b", 36)}, []string{"x", "***", "***"}},
		{[]string{"x", "--use-auth", "--verbose", "--key"}, nil},
		{[]string{"x", "--max-tokens", "512", "--max_new_tokens=64", "--tokenizer", "gpt2", "--num-key-value-heads", "8", "--keypoints", "17", "--passes", "3"}, nil},
		{[]string{"x", "--token", "12345", "--max-token-secret", "S3CRET"}, []string{"x", "--token", "***", "--max-token-secret", "***"}},
	} {
		want := c.want
		if want == nil {
			want = c.line
		}
		given := slices.Clone(c.line)
		got := document.MaskCommand(c.line)
		if !slices.Equal(got, want) {
			t.Errorf("%q\nbecomes %q\nwant    %q", c.line, got, want)
		}
		if !slices.Equal(given, c.line) {
			t.Errorf("the command itself was changed to %q", c.line)
		}
		if again := document.MaskCommand(got); !slices.Equal(again, got) {
			t.Errorf("%q masked again is %q", got, again)
		}
		if text := document.MaskText(strings.Join(c.line, " ")); strings.Contains(text, "S3CRET") {
			t.Errorf("as one text: %s", text)
		}
	}
}

// TestMaskTextEnds: quotes of any kind, and every text that holds nothing secret
// stays as it is.
func TestMaskTextEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab '\"\\=-:\n\t1é"))).Draw(t, "text")
		if got := document.MaskText(text); got != text && !strings.Contains(got, "***") {
			t.Fatalf("%q becomes %q", text, got)
		}
	})
}

func TestMaskLinks(t *testing.T) {
	for text, want := range map[string]string{
		"fatal: unable to access 'https://u:S3CRET@host/x.git/'": "fatal: unable to access 'https://***@host/x.git/'",
		"KeyError: 'batch' in step 3, tokens=12":                 "KeyError: 'batch' in step 3, tokens=12",
		"GET https://h/p?x=1&api_key=S3CRET#top":                 "GET https://h/p?x=1&api_key=***#top",
		"Invalid token hf_abcdefghijklmnopqrst":                  "Invalid token ***",
	} {
		if got := document.MaskLinks(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
