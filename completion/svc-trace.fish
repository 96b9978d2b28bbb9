# fish completion of svc-trace. To have it in every shell: svc-trace completion fish > ~/.config/fish/completions/svc-trace.fish
function __svc_trace_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l prefix (string match -r -- '^-.*=' $typed)
    set -l directive 0
    for line in ($words[1] __complete $words[2..-1] "$typed" 2>/dev/null)
        if string match -q -- ':*' $line
            set directive (string sub -s 2 -- $line)
        else
            printf '%s%s\n' "$prefix" "$line"
        end
    end
    if contains -- $directive 0 2
        __fish_complete_path (string replace -r -- '^-.*=' '' "$typed")
    end
end
complete -c svc-trace -f -a '(__svc_trace_complete)'
