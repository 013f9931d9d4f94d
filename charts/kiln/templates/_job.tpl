{{/* The `spec` of a Job, for Jobs and CronJobs alike. */}}
{{- define "kiln.jobSpec" -}}
backoffLimit: {{ int64 .Values.job.backoffLimit }}
{{- if not (kindIs "invalid" .Values.job.activeDeadlineSeconds) }}
activeDeadlineSeconds: {{ int64 .Values.job.activeDeadlineSeconds }}
{{- end }}
ttlSecondsAfterFinished: {{ int64 .Values.kamino.jobTtl }}
{{- if semverCompare ">=1.26.0-0" .Capabilities.KubeVersion.Version }}
podFailurePolicy:
  rules:
    # A lost node is nobody's fault: the next pod goes on where the journal ends.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
    # kiln's own verdicts (failed and released, wrong usage, held by another, stuck, drift): trying again would drain again.
    - action: FailJob
      onExitCodes:
        containerName: {{ .Values.kamino.name }}
        operator: In
        values: [1, 2, 3, 4, 5]
{{- end }}
template:
  {{- include "kiln.pod" . | nindent 2 }}
{{- end -}}
