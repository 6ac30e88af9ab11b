{{- define "otelcol-retina.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "otelcol-retina.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "otelcol-retina.labels" -}}
{{ include "otelcol-retina.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "otelcol-retina.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The collector's configuration on Linux: the chart's own, without the
sources that are off, and the user's over it. */ -}}
{{- define "otelcol-retina.config" -}}
{{- $config := .Files.Get "files/config.yaml" | fromYaml }}
{{- range $source, $on := .Values.sources }}
{{- if not $on }}{{ $_ := unset $config.extensions.podidentity.sources $source }}{{ end }}
{{- end }}
{{- mustMergeOverwrite $config .Values.config | toYaml }}
{{- end }}

{{- define "otelcol-retina.windowsConfig" -}}
{{- $config := .Files.Get "files/windows.yaml" | fromYaml }}
{{- mustMergeOverwrite $config .Values.windows.config | toYaml }}
{{- end }}

{{- /* GOMEMLIMIT: Go collects garbage before the kernel ends the container. Four
fifths of the memory limit: not all memory is Go's. In the units that memory is
usually given in; nothing in others. */ -}}
{{- define "otelcol-retina.goMemLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString }}
{{- range $unit, $mebibytes := dict "Mi" 1.0 "Gi" 1024.0 "M" 0.95367431640625 "G" 953.67431640625 }}
{{- if hasSuffix $unit $limit }}
- name: GOMEMLIMIT
  value: {{ mulf 0.8 $mebibytes (trimSuffix $unit $limit | float64) | floor | int64 }}MiB
{{- end }}
{{- end }}
{{- end }}
