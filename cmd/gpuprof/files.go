package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
)

// insertVerb completes a command line that has files but no subcommand: it inserts the subcommand that shows these
// files, and notes the resulting command. Other command lines are unchanged.
func insertVerb(a *cli.App, root *kong.Node, words []string) ([]string, error) {
	files, flags, ok := commandline.FilesMeant(root, words)
	if !ok {
		return words, nil
	}
	shown, err := input.Show(a.Ctx, files)
	if err != nil {
		return nil, err
	}
	command := append([]string{"gpuprof"}, shown.Args...)
	for i := range command {
		command[i] = gpuprof.ShellWord(command[i])
	}
	if !asksQuiet(flags) {
		a.Note("%s is %s: %s", files[0], shown.What, strings.Join(command, " "))
	}
	return append(shown.Args, flags...), nil
}
