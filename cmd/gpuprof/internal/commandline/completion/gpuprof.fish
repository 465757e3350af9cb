# gpuprof completion for fish. Load it with:  gpuprof completion fish | source

function __gpuprof_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
        set -l parts (string split -m 1 \t -- $line)
        switch $parts[1]
            case :files
                set -l flag (string match -r -- '^-[^=]*=' "$current")
                for path in (__fish_complete_path (string replace -r -- '^-[^=]*=' '' "$current"))
                    echo "$flag$path"
                end
            case :command
                set -l typed (string escape -- $words[(math $parts[2] + 2)..-1])
                complete -C (string join ' ' -- $typed "$current")
            case '*'
                echo $line
        end
    end
end
complete -c gpuprof -f -a '(__gpuprof_complete)'
