{{/* Environment variables, credential files and certificates of the pod. */}}
{{- define "kiln.environment" -}}
- name: NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_IMAGE
  value: {{ include "kiln.image" . }}
{{- with .Values.kamino.container.pullSecret }}
- name: POD_PULL_SECRET
  value: {{ . | quote }}
{{- end }}
{{- if eq .Values.azure.credential "workloadIdentity" }}
{{- $identity := .Values.azure.workloadIdentity }}
- name: AZURE_CLIENT_ID
  value: {{ $identity.clientId | quote }}
- name: AZURE_TENANT_ID
  value: {{ $identity.tenantId | quote }}
{{- with $identity.authorityHost }}
- name: AZURE_AUTHORITY_HOST
  value: {{ . | quote }}
{{- end }}
{{- if $identity.projectToken }}
- name: AZURE_FEDERATED_TOKEN_FILE
  value: /var/run/secrets/azure/tokens/azure-identity-token
{{- end }}
{{- end }}
{{- if or .Values.proxy.http .Values.proxy.https }}
{{- with .Values.proxy.http }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
# The kubelet provides the API server's address. IMDS and the wire server must not be reached through a proxy.
- name: NO_PROXY
  value: {{ concat (list "$(KUBERNETES_SERVICE_HOST)" "localhost" "127.0.0.1" "169.254.169.254" "168.63.129.16" ".svc") .Values.proxy.exceptFor | join "," | quote }}
{{- end }}
{{- if or .Values.caBundle.configMap .Values.caBundle.secret }}
# kiln reads both: the certificates of the image, and all files of the folder.
- name: SSL_CERT_FILE
  value: /etc/ssl/certs/ca-certificates.crt
- name: SSL_CERT_DIR
  value: /etc/kiln/ca
{{- end }}
{{- end -}}

{{- define "kiln.mounts" -}}
{{- if eq .Values.azure.credential "azureJson" }}
{{- if .Values.azure.azureJson.secretName }}
- name: azure-json
  mountPath: /etc/kubernetes
  readOnly: true
{{- else }}
- name: azure-json
  mountPath: /etc/kubernetes/azure.json
  readOnly: true
{{- if .Values.azure.azureJson.stackHostPath }}
- name: azure-stack
  mountPath: /etc/kubernetes/azurestackcloud.json
  readOnly: true
{{- end }}
{{- end }}
{{- else if and (eq .Values.azure.credential "workloadIdentity") .Values.azure.workloadIdentity.projectToken }}
- name: azure-identity-token
  mountPath: /var/run/secrets/azure/tokens
  readOnly: true
{{- end }}
{{- if include "kiln.smokeTest" . }}
- name: smoke-test
  mountPath: /etc/kiln/smoke-test
  readOnly: true
{{- end }}
{{- if or .Values.caBundle.configMap .Values.caBundle.secret }}
- name: ca
  mountPath: /etc/kiln/ca
  readOnly: true
{{- end }}
{{- end -}}

{{- define "kiln.volumes" -}}
{{- if eq .Values.azure.credential "azureJson" }}
{{- if .Values.azure.azureJson.secretName }}
- name: azure-json
  secret:
    secretName: {{ .Values.azure.azureJson.secretName }}
    # 0440: owned by root and the group of the pod.
    defaultMode: 288
{{- else }}
- name: azure-json
  hostPath:
    path: {{ .Values.azure.azureJson.hostPath }}
    type: File
{{- with .Values.azure.azureJson.stackHostPath }}
- name: azure-stack
  hostPath:
    path: {{ . }}
    type: File
{{- end }}
{{- end }}
{{- else if and (eq .Values.azure.credential "workloadIdentity") .Values.azure.workloadIdentity.projectToken }}
# The same names as the webhook of Azure Workload Identity uses, which then leaves them unchanged.
- name: azure-identity-token
  projected:
    sources:
      - serviceAccountToken:
          path: azure-identity-token
          audience: {{ .Values.azure.workloadIdentity.audience }}
          expirationSeconds: {{ int64 .Values.azure.workloadIdentity.tokenExpirationSeconds }}
{{- end }}
{{- if include "kiln.smokeTest" . }}
- name: smoke-test
  configMap:
    name: {{ include "kiln.smokeTest" . }}
{{- end }}
{{- with .Values.caBundle.configMap }}
- name: ca
  configMap:
    name: {{ . }}
    items:
      - key: {{ $.Values.caBundle.key }}
        path: ca.crt
{{- end }}
{{- with .Values.caBundle.secret }}
- name: ca
  secret:
    secretName: {{ . }}
    items:
      - key: {{ $.Values.caBundle.key }}
        path: ca.crt
{{- end }}
{{- end -}}
