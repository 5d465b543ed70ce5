{{- define "assay.labels" -}}
app.kubernetes.io/name: assay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "assay.scorerLabels" -}}
{{ include "assay.labels" . }}
app.kubernetes.io/component: scorer
{{- end }}

{{- define "assay.trainerLabels" -}}
{{ include "assay.labels" . }}
app.kubernetes.io/component: trainer
{{- end }}

{{- define "assay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* assay.podMetadata is the metadata of a pod: give it values (of the component) and labels (which win). */ -}}
{{- define "assay.podMetadata" -}}
labels: {{- merge (fromYaml .labels) .values.podLabels | toYaml | nindent 2 }}
{{- with .values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* assay.scheduling is where and how the pods of a component run: give it values and root. */ -}}
{{- define "assay.scheduling" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "assay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "assay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop:
    - ALL
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /*
assay.env is the environment of assay: give it values and root. Go's heap stays
below the memory request; libtorch uses the rest up to the limit.
*/ -}}
{{- define "assay.env" -}}
{{- with include "assay.modelDirectory" .root }}
- name: ASSAY_MODEL
  value: {{ . }}
{{ end -}}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      containerName: assay
      resource: requests.memory
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A health probe: list of path, period, timeout and failures, and a scheme other than HTTP. */ -}}
{{- define "assay.probe" -}}
httpGet:
  path: {{ index . 0 }}
  port: assay-ops
  {{- if gt (len .) 4 }}
  scheme: {{ index . 4 }}
  {{- end }}
periodSeconds: {{ index . 1 }}
timeoutSeconds: {{ index . 2 }}
failureThreshold: {{ index . 3 }}
{{- end }}

{{- /* The volumes of the service and the trainer: give it values and root. */ -}}
{{- define "assay.volumes" -}}
{{- if .root.Values.nats.enabled -}}
- name: nats
  secret:
    secretName: {{ .root.Values.nats.secretName }}
    defaultMode: 0440
{{ end -}}
- name: data
  emptyDir:
    sizeLimit: {{ .values.dataSize }}
- name: tmp
  emptyDir:
    sizeLimit: 1Gi
{{- with .values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
