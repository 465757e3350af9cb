# gpuprof completion for bash. Load it with:  source <(gpuprof completion bash)

_gpuprof() {
    local line=${COMP_LINE:0:COMP_POINT} current files= out text
    local -a words
    # Split by blanks only: bash would also split at '=' and ':'.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]} - 1]}
    COMPREPLY=()
    while IFS=$'\t' read -r out text; do
        if [[ $out == :files ]]; then files=1; else COMPREPLY+=("$out"); fi
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
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
complete -F _gpuprof gpuprof
