#compdef gpuprof
# gpuprof completion for zsh. Load it with:  source <(gpuprof completion zsh)

_gpuprof() {
    local line out text files
    local -a values described assigned
    while IFS= read -r line; do
        out=${line%%$'\t'*} text=${line#*$'\t'}
        case $out in
            :files) files=1 ;;
            :command)
                shift $((text + 1)) words
                (( CURRENT -= text + 1 ))
                _normal
                return ;;
            *=) assigned+=("$out") ;;
            *) values+=("$out"); described+=("$out  $text") ;;
        esac
    done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#values )) && compadd -Q -l -d described -a values
    (( $#assigned )) && compadd -Q -S '' -a assigned
    if [[ -n $files ]]; then
        [[ $PREFIX == -*=* ]] && compset -P '-*='
        _files
    fi
    return 0
}
compdef _gpuprof gpuprof
