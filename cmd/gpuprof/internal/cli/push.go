package cli

import (
	"bytes"
	"fmt"
	"os"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/push"
)

// Pushed is the flag --push of the subcommands whose documents include a profile.
type Pushed struct {
	Push string `placeholder:"URL" help:"Send the profile, as -o FILE.pb.gz has it, to a server: otlp+http://HOST:4318 or pyroscope+http://HOST:4040. Credentials are those of GPUPROF_PUSH_TOKEN, or of GPUPROF_PUSH_USER and GPUPROF_PUSH_PASSWORD."`
}

// Server returns the server of --push; nil without --push; ErrUsage if the kind of document has no profile.
func (k Kind[D]) Server(p Pushed) (*push.Server, error) {
	if p.Push == "" {
		return nil, nil
	}
	if k.Writers["pprof"] == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "pushing %s: it has no profile", k.What).WithFix("give a file written by gpuprof run to gpuprof report, or a trace or a memory snapshot to gpuprof analyze")
	}
	return push.To(p.Push, os.Getenv)
}

// SendTo sends a document's profile to a server, unless server is nil.
func (k Kind[D]) SendTo(a *App, server *push.Server, doc D) error {
	if server == nil {
		return nil
	}
	var text bytes.Buffer
	if err := k.Write(&text, "pprof", doc, Screen{}); err != nil {
		return err
	}
	p, err := profile.Parse(&text)
	if err != nil {
		return fmt.Errorf("reading the profile to push: %w", err)
	}
	if err := server.Send(a.Ctx, p); err != nil {
		return err
	}
	a.Note("pushed the profile to %s", server)
	return nil
}
