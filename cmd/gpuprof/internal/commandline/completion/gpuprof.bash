# gpuprof completion for bash. Load it with:  source <(gpuprof completion bash)

_gpuprof() {
    local line=${COMP_LINE:0:COMP_POINT} current files= command= out text
    local -a words
    # Split by blanks only: bash would also split at '=' and ':'.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]} - 1]}
    COMPREPLY=()
    while IFS=$'\t' read -r out text; do
        case $out in
            :files) files=1 ;;
            :command) command=$text ;;
            *) COMPREPLY+=("$out") ;;
        esac
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    if [[ -n $command ]]; then
        _gpuprof_command "$command"
        return
    fi
    # What bash already counts as a word of its own must not be repeated.
    local typed=${current##*[=:,]}
    local keep=${current%"$typed"}
    if [[ -n $files ]]; then
        while IFS= read -r out; do COMPREPLY+=("$keep$out"); done < <(compgen -f -- "$typed")
        compopt -o filenames 2>/dev/null
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    local cut=${current%"${current##*[=:]}"} i
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$cut"}; done
}

# What follows --: as the command itself completes, or commands and files.
_gpuprof_command() {
    local -a offset=()
    local i own
    for i in "${!COMP_WORDS[@]}"; do
        [[ ${COMP_WORDS[i]} == -- ]] && offset+=("$((i + 1))")
    done
    for own in _comp_command_offset _command_offset; do
        if declare -F "$own" >/dev/null && [[ ${#offset[@]} -gt 0 ]]; then
            "$own" "${offset[0]}"
            return
        fi
    done
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(
        compgen -f -- "$current"
        if [[ $((${#words[@]} - 2)) -eq $1 ]]; then compgen -c -- "$current"; fi
    )
}
complete -F _gpuprof gpuprof
