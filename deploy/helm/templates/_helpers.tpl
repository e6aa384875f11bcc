{{- define "tidegate.mounts" -}}
{{- if or .Values.secrets.files .Values.volume -}}
volumeMounts:
  {{- if .Values.secrets.files }}
  - name: secrets
    mountPath: /secrets
    readOnly: true
  {{- end }}
  {{- if .Values.volume }}
  - name: data
    mountPath: /data
  {{- end }}
{{- end }}
{{- end }}

{{- define "tidegate.volumes" -}}
{{- if or .Values.secrets.files .Values.volume -}}
volumes:
  {{- with .Values.secrets.files }}
  - name: secrets
    secret:
      secretName: {{ . }}
  {{- end }}
  {{- with .Values.volume }}
  - name: data
    persistentVolumeClaim:
      claimName: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The pod of one of Airflow's processes; `command` is its word after `airflow`. */}}
{{- define "tidegate.pod" -}}
{{- $mounts := include "tidegate.mounts" .root | fromYaml }}
{{- $volumes := include "tidegate.volumes" .root | fromYaml }}
metadata:
  labels:
    app.kubernetes.io/name: tidegate
    app.kubernetes.io/component: {{ .name }}
  annotations:
    # A changed setting starts the process again.
    checksum/settings: {{ include (print $.root.Template.BasePath "/settings.yaml") .root | sha256sum }}
spec:
  {{- if eq .name "scheduler" }}
  serviceAccountName: tidegate-driver
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  {{- if eq .name "database" }}
  restartPolicy: OnFailure
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 50000
    fsGroup: 0
  containers:
    - name: {{ .name }}
      image: {{ .root.Values.image }}
      args: {{ toJson .command }}
      envFrom:
        - configMapRef:
            name: tidegate-settings
        - secretRef:
            name: {{ .root.Values.secrets.airflow }}
        {{- with .root.Values.secrets.job }}
        - secretRef:
            name: {{ . }}
        {{- end }}
      {{- if eq .name "api-server" }}
      ports:
        - name: http
          containerPort: 8080
      readinessProbe:
        httpGet:
          path: /api/v2/monitor/health
          port: http
      {{- end }}
      resources: {{ (eq .name "scheduler" | ternary .root.Values.resources.scheduler .root.Values.resources.others) | toJson }}
      securityContext:
        allowPrivilegeEscalation: false
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: spark
          mountPath: /etc/tidegate
        {{- with $mounts.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: spark
      configMap:
        name: tidegate-spark
    {{- with $volumes.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
