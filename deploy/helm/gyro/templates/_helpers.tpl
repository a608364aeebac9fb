{{- define "gyro.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "gyro.labels" -}}
app.kubernetes.io/name: gyro
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "gyro.selector" -}}
app.kubernetes.io/name: gyro
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gyro.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "gyro.secret" -}}
{{ .Values.existingSecret | default (include "gyro.name" .) }}
{{- end -}}

{{- /* What the pods of nodes and of the load generator have in common. */ -}}
{{- define "gyro.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- with concat .Values.sysctls .Values.unsafeSysctls }}
sysctls:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gyro.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The configuration file: the user's, and what the chart decides. */ -}}
{{- define "gyro.config" -}}
{{- if gt (mul 2 .Values.shutdown.drainSeconds) (int64 .Values.shutdown.timeoutSeconds) -}}
{{- required "shutdown.drainSeconds may be half of shutdown.timeoutSeconds at most" "" -}}
{{- end -}}
{{- $chart := dict
  "http_server" (dict "port" 8000 "internal_port" "9000")
  "health" (dict "enabled" true "handler_prefix" "/health")
  "prometheus" (dict "enabled" .Values.metrics.enabled "handler_prefix" "/metrics")
  "shutdown" (dict "timeout" (printf "%ds" (int .Values.shutdown.timeoutSeconds)) "drain_time" (printf "%ds" (int .Values.shutdown.drainSeconds))) -}}
{{- if .Values.redis.enabled -}}
{{- $addresses := list -}}
{{- range $i := until (int .Values.redis.shards) -}}
{{- $addresses = append $addresses (printf "%s-redis-%d.%s-redis:6379" (include "gyro.name" $) $i (include "gyro.name" $)) -}}
{{- end -}}
{{- $_ := set $chart "engine" (dict "type" "redis" "redis" (dict "address" $addresses "start_timeout" "60s")) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $chart | toPrettyJson -}}
{{- end -}}
