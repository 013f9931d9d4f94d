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
    # After a lost node the next pod resumes from the journal.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
    # Exit codes of kiln itself (failed and released, usage error, held by another run, stuck, drift): a retry would drain again.
    - action: FailJob
      onExitCodes:
        containerName: {{ .Values.kamino.name }}
        operator: In
        values: [1, 2, 3, 4, 5]
{{- end }}
template:
  {{- include "kiln.pod" . | nindent 2 }}
{{- end -}}
