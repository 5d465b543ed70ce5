{{- /*
assay.modelDirectory is the directory of the checkpoint in the containers; empty:
the one of the image.
*/ -}}
{{- define "assay.modelDirectory" -}}
{{- $m := .Values.model -}}
{{- if $m.hub.repository -}}
/models/{{ regexReplaceAll "@.*$" $m.hub.repository "" | base }}
{{- else if $m.volume -}}
/models{{ with trimAll "/" $m.path }}/{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{- /* assay.modelVolume is the list of the volume: give it root and name. */ -}}
{{- define "assay.modelVolume" -}}
{{- $m := .root.Values.model -}}
{{- if $m.hub.repository -}}
- name: {{ .name }}
  emptyDir:
    sizeLimit: {{ $m.hub.sizeLimit }}
{{- else if $m.volume -}}
- name: {{ .name }}
  {{- toYaml $m.volume | nindent 2 }}
{{- end -}}
{{- end }}

{{- /* assay.modelMount is the list of its mount in assay: give it root and name. */ -}}
{{- define "assay.modelMount" -}}
{{- if include "assay.modelDirectory" .root -}}
- name: {{ .name }}
  mountPath: /models
  readOnly: true
{{- end -}}
{{- end }}

{{- /*
assay.pullModel is the list of the init container that pulls the checkpoint from
the hub: give it root, values (of the component), and the names of the volumes
model and tmp.
*/ -}}
{{- define "assay.pullModel" -}}
{{- $hub := .root.Values.model.hub -}}
{{- if $hub.repository -}}
- name: assay-pull
  image: {{ include "assay.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - pull
    - {{ $hub.repository | quote }}
    - --out={{ include "assay.modelDirectory" .root }}
  {{- $env := list }}
  {{- with $hub.endpoint }}
  {{- $env = append $env (dict "name" "HF_ENDPOINT" "value" .) }}
  {{- end }}
  {{- with $hub.tokenSecretName }}
  {{- $env = append $env (dict "name" "HF_TOKEN" "valueFrom" (dict "secretKeyRef" (dict "name" . "key" "token" "optional" true))) }}
  {{- end }}
  {{- with concat $env .values.extraEnv }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  resources: # it streams files to the volume
    requests:
      cpu: 100m
      memory: 128Mi
      ephemeral-storage: 256Mi
    limits:
      cpu: "1"
      memory: 512Mi
      {{- if not .sidecar }}
      ephemeral-storage: {{ $hub.sizeLimit }}
      {{- end }}
  securityContext: {{- include "assay.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    - name: {{ .model }}
      mountPath: /models
    - name: {{ .tmp }}
      mountPath: /tmp
{{- end -}}
{{- end }}
