#compdef svc-trace
# zsh completion of svc-trace. To have it in every shell, in ~/.zshrc after compinit: source <(svc-trace completion zsh)
_svc_trace() {
  local -a lines candidates
  local line value directive=0
  lines=("${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    if [[ $line == :* ]]; then
      directive=${line#:}
      continue
    fi
    value=${line%%$'\t'*}
    candidates+=("${value//:/\\:}${${line#$value}/$'\t'/:}")
  done
  compset -P '-*='
  if ((${#candidates} > 0)); then
    if ((directive & 2)); then _describe 'svc-trace' candidates -S ''; else _describe 'svc-trace' candidates; fi
  elif ((!(directive & 4))); then
    _files
  fi
}
if [[ $funcstack[1] == _svc_trace || $funcstack[1] == _svc-trace ]]; then _svc_trace "$@"; else compdef _svc_trace svc-trace; fi
