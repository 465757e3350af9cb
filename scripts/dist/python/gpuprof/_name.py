"""The names under which pip and a shell find gpuprof; scripts/dist/dist.py reads them too."""

DISTRIBUTION = "gpuprof-cli"  # gpuprof is another project's name on PyPI
COMMAND = "gpuprof"
ALWAYS = "gpuprof-cli"  # the command that no other package takes
