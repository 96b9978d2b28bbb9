{{/* repository:tag, with the digest if there is one. */}}
{{- define "svc-trace.image" -}}
{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}
{{/* What cannot work is refused where it is asked for. */}}
{{- define "svc-trace.validate" -}}
{{- if and (eq .Values.check.mode "agents") (not .Values.agents.enabled) }}
{{- fail "check.mode=agents collects the results of agents: set agents.enabled=true, or check.mode=exec or none" }}
{{- end }}
{{- if and .Values.prometheusOperator.enabled (not .Values.agents.enabled) }}
{{- fail "prometheusOperator.enabled=true scrapes agents: set agents.enabled=true" }}
{{- end }}
{{- if and .Values.agents.cilium (not .Values.agents.enabled) }}
{{- fail "agents.cilium is a right of agents: set agents.enabled=true" }}
{{- end }}
{{- if and .Values.check.nodesProxy (ne .Values.check.mode "exec") }}
{{- fail "check.nodesProxy is a right of the CronJob that reads nodes by exec: set check.mode=exec" }}
{{- end }}
{{- if and (ne .Values.check.reports "none") (eq .Values.check.mode "none") }}
{{- fail "check.reports needs a CronJob: set check.mode=agents or exec" }}
{{- end }}
{{- end }}
