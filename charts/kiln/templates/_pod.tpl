{{/* Whether a file of the node is mounted. */}}
{{- define "kiln.mountsHost" -}}
{{- if and (or (include "kiln.hasRun" .) (and .Values.operator.enabled .Values.operator.images)) (eq .Values.azure.credential "azureJson") (not .Values.azure.azureJson.secretName) -}}
yes
{{- end -}}
{{- end -}}

{{/* The pod of a run, as the `template` of a Job. */}}
{{- define "kiln.pod" -}}
{{- $command := include "kiln.command" . -}}
{{- $root := include "kiln.mountsHost" . -}}
{{- $user := ternary 0 65532 (ne $root "") -}}
{{- if not (kindIs "invalid" .Values.podSecurity.runAsUser) -}}
{{- $user = int64 .Values.podSecurity.runAsUser -}}
{{- end -}}
{{- $labels := merge (include "kiln.labels" . | fromYaml) (dict "app.kubernetes.io/component" $command) -}}
{{- if eq .Values.azure.credential "workloadIdentity" -}}
{{- $_ := set $labels "azure.workload.identity/use" "true" -}}
{{- end -}}
{{- /* Neither the autoscaler nor Karpenter may remove the node of a run. */ -}}
{{- $annotations := dict
  "cluster-autoscaler.kubernetes.io/safe-to-evict" "false"
  "karpenter.sh/do-not-disrupt" "true" -}}
metadata:
  labels:
    {{- toYaml (merge $labels .Values.podLabels) | nindent 4 }}
  annotations:
    {{- toYaml (merge $annotations .Values.podAnnotations) | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ include "kiln.serviceAccount" . }}
  automountServiceAccountToken: true
  terminationGracePeriodSeconds: {{ int64 .Values.job.terminationGracePeriodSeconds }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.kamino.container.pullSecret }}
  imagePullSecrets:
    - name: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: {{ ne (int64 $user) 0 }}
    runAsUser: {{ $user }}
    runAsGroup: {{ $user }}
    fsGroup: {{ $user }}
    seccompProfile:
      type: RuntimeDefault
  nodeSelector:
    {{- toYaml (merge (dict "kubernetes.io/os" "linux") .Values.nodeSelector) | nindent 4 }}
  {{- with include "kiln.affinity" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "kiln.tolerations" . | nindent 2 }}
  containers:
    - name: {{ .Values.kamino.name }}
      image: {{ include "kiln.image" . }}
      imagePullPolicy: {{ include "kiln.imagePullPolicy" . }}
      args:
        {{- include "kiln.arguments" . | nindent 8 }}
      env:
        {{- include "kiln.environment" . | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      {{- with include "kiln.mounts" . }}
      volumeMounts:
        {{- . | trim | nindent 8 }}
      {{- end }}
  {{- with include "kiln.volumes" . }}
  volumes:
    {{- . | trim | nindent 4 }}
  {{- end }}
{{- end -}}

{{/*
Never on the donor. With scheduleOnControlPlane only on a control plane, which may have any of three labels. Terms are alternatives, so each
one excludes the donor.
*/}}
{{- define "kiln.affinity" -}}
{{- $donor := "" -}}
{{- if eq (include "kiln.command" .) "update" -}}
{{- $donor = .Values.kamino.targetNode -}}
{{- end -}}
{{- $terms := list -}}
{{- if .Values.kamino.scheduleOnControlPlane -}}
{{- $terms = list
  (dict "matchExpressions" (list (dict "key" "kubernetes.io/role" "operator" "In" "values" (list "master"))))
  (dict "matchExpressions" (list (dict "key" "node-role.kubernetes.io/master" "operator" "Exists")))
  (dict "matchExpressions" (list (dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists"))) -}}
{{- else if $donor -}}
{{- $terms = list (dict) -}}
{{- end -}}
{{- if $donor -}}
{{- range $terms -}}
{{- $_ := set . "matchFields" (list (dict "key" "metadata.name" "operator" "NotIn" "values" (list $donor))) -}}
{{- end -}}
{{- end -}}
{{- with $terms -}}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        {{- toYaml . | nindent 8 }}
{{- end -}}
{{- end -}}

{{/* The tolerations of all pods. */}}
{{- define "kiln.tolerations" -}}
tolerations:
  # Control planes, by the old and the new taint; AKS Engine sets a value, others do not.
  - key: node-role.kubernetes.io/master
    operator: Exists
    effect: NoSchedule
  - key: node-role.kubernetes.io/control-plane
    operator: Exists
    effect: NoSchedule
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
