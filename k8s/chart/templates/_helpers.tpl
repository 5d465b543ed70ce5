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

{{- /* libtorch takes its threads from limits.cpu by itself. Its memory is not Go's: Go keeps to the request. */ -}}
{{- define "assay.env" -}}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      containerName: assay
      resource: requests.memory
{{- end }}

{{- /* A probe of health: list of path, period, timeout and failures. */ -}}
{{- define "assay.probe" -}}
httpGet:
  path: {{ index . 0 }}
  port: assay-ops
periodSeconds: {{ index . 1 }}
timeoutSeconds: {{ index . 2 }}
failureThreshold: {{ index . 3 }}
{{- end }}

{{- /* The volumes of services and trainers. */ -}}
{{- define "assay.volumes" -}}
- name: nats
  secret:
    secretName: {{ .Values.nats.secretName }}
    defaultMode: 0440
- name: data
  emptyDir:
    sizeLimit: 6Gi
- name: tmp
  emptyDir:
    sizeLimit: 1Gi
{{- end }}
