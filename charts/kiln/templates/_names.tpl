{{/* The release's name, with kamino.name appended unless it contains it. */}}
{{- define "kiln.fullname" -}}
{{- if contains .Values.kamino.name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.kamino.name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster roles have no namespace: releases of the same name in two namespaces need different ones. */}}
{{- define "kiln.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "kiln.fullname" .) -}}
{{- end -}}

{{- define "kiln.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kiln.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required with serviceAccount.create=false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Selects the pods of this release; user-defined labels are not part of it. */}}
{{- define "kiln.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* User-defined labels and ours, which cannot be overridden. */}}
{{- define "kiln.labels" -}}
{{- $ours := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) -}}
{{- toYaml (merge (include "kiln.selector" . | fromYaml) $ours .Values.kamino.labels) -}}
{{- end -}}

{{/* The image, by its hash with pullByHash, with or without the prefix `sha256:`. */}}
{{- define "kiln.image" -}}
{{- $container := .Values.kamino.container -}}
{{- $name := $container.imageRepository -}}
{{- with $container.imageRegistry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}
{{- end -}}
{{- if $container.pullByHash -}}
{{- $hash := required "kamino.container.imageHash is required with kamino.container.pullByHash=true" $container.imageHash -}}
{{- printf "%s@sha256:%s" $name (trimPrefix "sha256:" $hash) -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $container.imageTag) -}}
{{- end -}}
{{- end -}}

{{- define "kiln.imagePullPolicy" -}}
{{- default (ternary "IfNotPresent" "Always" .Values.kamino.container.pullByHash) .Values.kiln.imagePullPolicy -}}
{{- end -}}

{{/* The ConfigMap with the pod of the smoke test; empty if there is none. */}}
{{- define "kiln.smokeTest" -}}
{{- if and .Values.kiln.smokeTest (has (include "kiln.command" .) (list "update" "auto-update")) -}}
{{ include "kiln.fullname" . }}-smoke-test
{{- end -}}
{{- end -}}

{{- define "kiln.operator.name" -}}
{{ include "kiln.fullname" . }}-operator
{{- end -}}

{{/* Selects the pods of the operator. Their name differs from that of runs, whose budget must not count them. */}}
{{- define "kiln.operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kiln.operator.labels" -}}
{{- toYaml (merge (include "kiln.operator.selector" . | fromYaml) (include "kiln.labels" . | fromYaml)) -}}
{{- end -}}
