{{- /* assay.checks refuses values that contradict each other; values.schema.json checks each by itself. */ -}}
{{- define "assay.checks" -}}
{{- $v := .Values -}}
{{- if and $v.model.volume $v.model.hub.repository -}}
{{- fail "model.volume and model.hub.repository are both set; set one of them" -}}
{{- end -}}
{{- if and $v.model.path (not $v.model.volume) -}}
{{- fail "model.path is set without model.volume; name the volume that has this directory" -}}
{{- end -}}
{{- range $key := list "model" "data-dir" "packed-weights" -}}
{{- if hasKey $v.config $key -}}
{{- fail (printf "config.%s has no effect: the image sets its environment variable, which has precedence; set model.volume or model.hub, or extraEnv" $key) -}}
{{- end -}}
{{- end -}}
{{- if and $v.sidecar.proxy.enabled $v.sidecar.nats -}}
{{- fail "sidecar.proxy and sidecar.nats are mutually exclusive: a proxy does not use NATS" -}}
{{- end -}}
{{- if and $v.service.tls.clientCA (not $v.service.tls.secretName) -}}
{{- fail "service.tls.clientCA needs service.tls.secretName: client certificates need TLS" -}}
{{- end -}}
{{- if not $v.nats.enabled -}}
{{- if $v.trainer.enabled -}}
{{- fail "trainer.enabled needs nats.enabled: the trainer reads feedback from NATS" -}}
{{- end -}}
{{- if $v.sidecar.nats -}}
{{- fail "sidecar.nats needs nats.enabled" -}}
{{- end -}}
{{- if and $v.service.enabled (eq $v.service.autoscaling.by "lag") -}}
{{- fail "service.autoscaling.by: lag needs nats.enabled; use cpu or none" -}}
{{- end -}}
{{- end -}}
{{- if and (not (kindIs "invalid" $v.service.replicas)) (ne $v.service.autoscaling.by "none") -}}
{{- fail (printf "service.replicas is set, but service.autoscaling.by is %s; set it to none, or use minReplicas and maxReplicas" $v.service.autoscaling.by) -}}
{{- end -}}
{{- if gt (int $v.service.autoscaling.minReplicas) (int $v.service.autoscaling.maxReplicas) -}}
{{- fail "service.autoscaling.minReplicas is greater than maxReplicas" -}}
{{- end -}}
{{- if ge (int $v.service.drainDelaySeconds) (int $v.service.shutdownTimeoutSeconds) -}}
{{- fail "service.drainDelaySeconds must be less than shutdownTimeoutSeconds, which includes it" -}}
{{- end -}}
{{- end }}
