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
