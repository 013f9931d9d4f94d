{{/* The release's name, with the name of what runs unless it is in there already. */}}
{{- define "kiln.fullname" -}}
{{- if contains .Values.kamino.name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.kamino.name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster roles have no namespace: two releases of one name in two namespaces must not meet. */}}
{{- define "kiln.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "kiln.fullname" .) -}}
{{- end -}}

{{- define "kiln.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kiln.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed with serviceAccount.create=false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What tells the pods of this release from all others; labels that a user chooses are not among them. */}}
{{- define "kiln.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* A user's labels, then ours: nobody can take ours away. */}}
{{- define "kiln.labels" -}}
{{- $ours := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) -}}
{{- toYaml (merge (include "kiln.selector" . | fromYaml) $ours .Values.kamino.labels) -}}
{{- end -}}

{{/* The image: by its hash if that is asked for, with or without `sha256:` before it. */}}
{{- define "kiln.image" -}}
{{- $container := .Values.kamino.container -}}
{{- $name := $container.imageRepository -}}
{{- with $container.imageRegistry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}
{{- end -}}
{{- if $container.pullByHash -}}
{{- $hash := required "kamino.container.imageHash is needed with kamino.container.pullByHash=true" $container.imageHash -}}
{{- printf "%s@sha256:%s" $name (trimPrefix "sha256:" $hash) -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $container.imageTag) -}}
{{- end -}}
{{- end -}}

{{- define "kiln.imagePullPolicy" -}}
{{- default (ternary "IfNotPresent" "Always" .Values.kamino.container.pullByHash) .Values.kiln.imagePullPolicy -}}
{{- end -}}
