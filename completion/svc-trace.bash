# bash completion of svc-trace, for bash 3.2 and later. To have it in every shell, in ~/.bashrc: source <(svc-trace completion bash)
# bash breaks words at "=" and ":", and wants back only what follows the last of them.
_svc_trace() {
  local words=() count=0 directive=0 i line word
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((count > 0)) && [[ $word =~ ^[=:]+$ || ${COMP_WORDS[i-1]} =~ ^[=:]+$ ]]; then
      words[count-1]+=$word
    else
      words[count++]=$word
    fi
  done
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :*) directive=${line#:} ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  if type compopt >/dev/null 2>&1; then
    if ((directive & 2)); then compopt -o nospace; fi
    if ((directive & 4)); then compopt +o default; fi
  fi
}
complete -o default -F _svc_trace svc-trace
