{{- /*
assay.sidecar is the native sidecar. Give it a dictionary with root, the chart's
scope; the other templates of this file take the same.
*/ -}}
{{- define "assay.sidecar" -}}
{{- $v := .root.Values -}}
name: assay
image: {{ include "assay.image" .root }}
imagePullPolicy: {{ $v.image.pullPolicy }}
restartPolicy: Always # starts before the other containers and stops after them
args:
  {{- if $v.sidecar.proxy.enabled }}
  - proxy
  - --upstream={{ $v.sidecar.proxy.upstream }}
  - --mode={{ $v.sidecar.proxy.mode }}
  {{- if $v.sidecar.proxy.guardedOnly }}
  - --guarded-only # other endpoints that generate text are not scored
  {{- end }}
  - --listen=:8090
  - --insecure # the server requires its own tokens, which the proxy forwards
  - --ops-listen=:8081
  {{- else }}
  - serve
  - --listen=127.0.0.1:8080
  - --ops-listen=:8081 # only health and metrics: probes cannot reach loopback
  - --data-dir=/var/lib/assay
  {{- if $v.sidecar.nats }}
  - --nats-url={{ $v.nats.url }}
  - --nats-nkey=/etc/assay/nats/nkey
  - --no-train
  {{- else }}
  - --nats=off
  {{- end }}
  - --request-memory={{ $v.sidecar.requestMemory }}
  {{- end }}
  - --shutdown-timeout={{ $v.sidecar.shutdownTimeoutSeconds }}s
  - --log-format=json
  {{- with $v.sidecar.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env: {{- include "assay.env" (dict "root" .root "values" $v.sidecar) | nindent 2 }}
ports:
  - name: assay-ops
    containerPort: 8081
  {{- if $v.sidecar.proxy.enabled }}
  - name: assay-proxy
    containerPort: 8090
  {{- end }}
startupProbe: {{- include "assay.probe" (list "/readyz" 1 2 120) | nindent 2 }}
readinessProbe: {{- include "assay.probe" (list "/readyz" 5 2 2) | nindent 2 }}
livenessProbe: {{- include "assay.probe" (list "/livez" 10 5 6) | nindent 2 }}
resources: {{- toYaml $v.sidecar.resources | nindent 2 }}
securityContext: {{- include "assay.containerSecurity" .root | nindent 2 }}
volumeMounts:
  {{- if $v.sidecar.nats }}
  - name: assay-nats
    mountPath: /etc/assay/nats
    readOnly: true
  {{- end }}
  - name: assay-data
    mountPath: /var/lib/assay
  - name: assay-tmp
    mountPath: /tmp
  # Hides the token of the workload's service account.
  - name: assay-no-token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
  {{- with include "assay.modelMount" (dict "root" .root "name" "assay-model") }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $v.sidecar.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "assay.sidecarVolumes" -}}
{{- if .root.Values.sidecar.nats }}
- name: assay-nats
  secret:
    secretName: {{ .root.Values.nats.secretName }}
{{- end }}
- name: assay-data
  emptyDir:
    sizeLimit: {{ .root.Values.sidecar.dataSize }}
- name: assay-tmp
  emptyDir:
    sizeLimit: 512Mi
- name: assay-no-token
  emptyDir:
    sizeLimit: 1Mi
{{- with include "assay.modelVolume" (dict "root" .root "name" "assay-model") }}
{{ . }}
{{- end }}
{{- end }}

{{- /* assay.withSidecar is a workload with the sidecar, as YAML: give it workload and root. */ -}}
{{- define "assay.withSidecar" -}}
{{- $w := deepCopy .workload -}}
{{- $values := .root.Values -}}
{{- $template := $w.spec.template -}}
{{- $metadata := $template.metadata | default dict -}}
{{- $_ := set $metadata "labels" (merge (dict "assay-sidecar" "enabled") ($metadata.labels | default dict)) -}}
{{- $_ = set $template "metadata" $metadata -}}
{{- $pod := $template.spec -}}
{{- $pull := include "assay.pullModel" (dict "root" .root "values" $values.sidecar "model" "assay-model" "tmp" "assay-tmp" "sidecar" true) | fromYamlArray -}}
{{- $sidecar := include "assay.sidecar" (dict "root" .root) | fromYaml -}}
{{- $volumes := include "assay.sidecarVolumes" (dict "root" .root) | fromYamlArray -}}
{{- $_ = set $pod "initContainers" (concat $pull (list $sidecar) ($pod.initContainers | default list)) -}}
{{- $_ = set $pod "volumes" (concat $volumes ($pod.volumes | default list)) -}}
{{- with $values.imagePullSecrets -}}
{{- $_ = set $pod "imagePullSecrets" (concat . ($pod.imagePullSecrets | default list) | uniq) -}}
{{- end -}}
{{- $_ = set $w.metadata "namespace" .root.Release.Namespace -}}
{{- toYaml $w -}}
{{- end }}
