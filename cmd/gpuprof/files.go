package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/commandline"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
)

// withVerb puts the verb that shows them before files that stand alone, and tells the person the command. Other
// command lines stay as they are.
func withVerb(a *cli.App, root *kong.Node, words []string) ([]string, error) {
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
	if !quiet(flags) {
		a.Note("%s is %s: %s", files[0], shown.What, strings.Join(command, " "))
	}
	return append(shown.Args, flags...), nil
}
