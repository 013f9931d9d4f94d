{{/* The command of kiln that runs: the target decides, as in kamino's chart. With the operator, there may be none. */}}
{{- define "kiln.command" -}}
{{- if .Values.kiln.run -}}
run
{{- else if .Values.kamino.targetNode -}}
update
{{- else if .Values.kamino.targetVMSS -}}
auto-update
{{- else if .Values.operator.enabled -}}
none
{{- else -}}
status
{{- end -}}
{{- end -}}

{{/* Whether a command runs as a Job, now or on a schedule. */}}
{{- define "kiln.hasRun" -}}
{{- if ne (include "kiln.command" .) "none" -}}
yes
{{- end -}}
{{- end -}}

{{/* Whether it runs on a schedule. */}}
{{- define "kiln.isScheduled" -}}
{{- if and (eq (include "kiln.command" .) "auto-update") .Values.kamino.auto.cronjob.enabled -}}
yes
{{- end -}}
{{- end -}}

{{/* Whether it changes anything, so that it must not be interrupted. */}}
{{- define "kiln.changes" -}}
{{- if not (has (include "kiln.command" .) (list "status" "none")) -}}
yes
{{- end -}}
{{- end -}}

{{/* The arguments of the container. Numbers of a values file are floats: `int64` prevents 1e+06. */}}
{{- define "kiln.arguments" -}}
{{- $kamino := .Values.kamino -}}
{{- $kiln := .Values.kiln -}}
{{- $command := include "kiln.command" . -}}
{{- $arguments := list "prototype" $command -}}
{{- if $kiln.run -}}
{{- $arguments = $kiln.run -}}
{{- end -}}
{{- $arguments = concat $arguments (list "--in-cluster" "--namespace" .Release.Namespace "--log-level" $kamino.logLevel) -}}
{{- with $kiln.logPrefix -}}
{{- $arguments = concat $arguments (list "--log-prefix" .) -}}
{{- end -}}
{{- if $kiln.logTimestamps -}}
{{- $arguments = append $arguments "--log-timestamps" -}}
{{- end -}}
{{- with .Values.azure.resourceGroup -}}
{{- $arguments = concat $arguments (list "--resource-group" .) -}}
{{- end -}}
{{- with .Values.azure.subscription -}}
{{- $arguments = concat $arguments (list "--subscription" .) -}}
{{- end -}}
{{- with .Values.azure.galleryResourceGroup -}}
{{- $arguments = concat $arguments (list "--gallery-resource-group" .) -}}
{{- end -}}
{{- with .Values.azure.gallerySubscription -}}
{{- $arguments = concat $arguments (list "--gallery-subscription" .) -}}
{{- end -}}
{{- if eq .Values.azure.credential "managedIdentity" -}}
{{- $arguments = append $arguments (printf "--managed-identity=%s" (default "system" .Values.azure.managedIdentity.id)) -}}
{{- end -}}
{{- if ne $kiln.output "text" -}}
{{- $arguments = concat $arguments (list "--output" $kiln.output) -}}
{{- end -}}
{{- if has $command (list "update" "auto-update") -}}
{{- $arguments = concat $arguments (include "kiln.arguments.change" . | fromYamlArray) -}}
{{- end -}}
{{- if eq $command "auto-update" -}}
{{- $arguments = concat $arguments (include "kiln.arguments.auto" . | fromYamlArray) -}}
{{- end -}}
{{- toYaml $arguments -}}
{{- end -}}

{{/* Common arguments of update and auto-update. */}}
{{- define "kiln.arguments.change" -}}
{{- $kamino := .Values.kamino -}}
{{- $kiln := .Values.kiln -}}
{{- $arguments := list -}}
{{- with $kamino.targetNode -}}
{{- $arguments = concat $arguments (list "--target-node" .) -}}
{{- end -}}
{{- $arguments = concat $arguments (list
  "--new-updated-nodes" (int64 $kamino.newUpdatedNodes | toString)
  "--max-history" (int64 $kamino.imageHistory | toString)) -}}
{{- if not (kindIs "invalid" $kamino.drain.gracePeriod) -}}
{{- $arguments = concat $arguments (list "--grace-period" (int64 $kamino.drain.gracePeriod | toString)) -}}
{{- end -}}
{{- $flags := dict
  "--force" $kamino.drain.force
  "--no-canary" (not $kiln.canary)
  "--keep-canary-on-failure" $kiln.keepCanaryOnFailure
  "--pin" $kiln.pin
  "--deallocate" $kiln.deallocate
  "--live" $kiln.live
  "--replace-today" $kiln.replaceToday
  "--allow-empty-pool" $kiln.allowEmptyPool
  "--allow-managed-pool" $kiln.allowManagedPool
  "--allow-rejected-patch" $kiln.allowRejectedPatch
  "--no-original" $kiln.noOriginal -}}
{{- range $flag, $on := $flags -}}
{{- if $on -}}
{{- $arguments = append $arguments $flag -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := $kiln.tags -}}
{{- $arguments = concat $arguments (list "--tags" (printf "%s=%s" $key $value)) -}}
{{- end -}}
{{- with $kiln.join -}}
{{- $arguments = concat $arguments (list "--join" .) -}}
{{- end -}}
{{- with $kiln.canarySecret -}}
{{- $arguments = concat $arguments (list "--canary-secret" .) -}}
{{- end -}}
{{- with $kiln.protectedSettingsSecret -}}
{{- $arguments = concat $arguments (list "--protected-settings-secret" .) -}}
{{- end -}}
{{- with $kiln.canarySize -}}
{{- $arguments = concat $arguments (list "--canary-size" .) -}}
{{- end -}}
{{- with $kiln.canaryZone -}}
{{- $arguments = concat $arguments (list "--canary-zone" .) -}}
{{- end -}}
{{- with $kiln.smokeTest -}}
{{- $arguments = concat $arguments (list "--smoke-test" "/etc/kiln/smoke-test/pod.yaml") -}}
{{- end -}}
{{- with $kiln.soak -}}
{{- $arguments = concat $arguments (list "--soak" .) -}}
{{- end -}}
{{- if not (kindIs "invalid" $kiln.replicas) -}}
{{- $arguments = concat $arguments (list "--replicas" (int64 $kiln.replicas | toString)) -}}
{{- end -}}
{{- range $region, $replicas := $kiln.targetRegions -}}
{{- if kindIs "invalid" $replicas -}}
{{- $arguments = concat $arguments (list "--target-regions" $region) -}}
{{- else -}}
{{- $arguments = concat $arguments (list "--target-regions" (printf "%s=%d" $region (int64 $replicas))) -}}
{{- end -}}
{{- end -}}
{{- with $kiln.diskEncryptionSet -}}
{{- $arguments = concat $arguments (list "--disk-encryption-set" .) -}}
{{- end -}}
{{- toYaml $arguments -}}
{{- end -}}

{{- define "kiln.arguments.auto" -}}
{{- $auto := .Values.kamino.auto -}}
{{- $kiln := .Values.kiln -}}
{{- $arguments := list -}}
{{- if ne .Values.kamino.targetVMSS "ALL" -}}
{{- $arguments = concat $arguments (list "--target-vmss" .Values.kamino.targetVMSS) -}}
{{- end -}}
{{- $ready := $auto.minimumReadyTime -}}
{{- if not (kindIs "string" $ready) -}}
{{- $ready = int64 $ready | toString -}}
{{- end -}}
{{- $arguments = concat $arguments (list
  "--last-patch-annotation" (required "kamino.auto.lastPatchAnnotation is required with kamino.targetVMSS" $auto.lastPatchAnnotation)
  "--pending-reboot-annotation" (required "kamino.auto.pendingRebootAnnotation is required with kamino.targetVMSS" $auto.pendingRebootAnnotation)
  "--minimum-ready-time" $ready
  "--minimum-candidates" (int64 $auto.minimumCandidates | toString)
  "--maximum-image-age" (int64 $auto.maximumImageAge | toString)
  "--max-skipped-nights" (int64 $kiln.maxSkippedNights | toString)) -}}
{{- range $kiln.nodeIgnoreAnnotations -}}
{{- $arguments = concat $arguments (list "--node-ignore-annotation" .) -}}
{{- end -}}
{{- range $kiln.ignoreNodes -}}
{{- $arguments = concat $arguments (list "--ignore-nodes" .) -}}
{{- end -}}
{{- if $kiln.allowSkipped -}}
{{- $arguments = append $arguments "--allow-skipped" -}}
{{- end -}}
{{- if $auto.dryRun -}}
{{- $arguments = append $arguments "--dry-run" -}}
{{- end -}}
{{- toYaml $arguments -}}
{{- end -}}
