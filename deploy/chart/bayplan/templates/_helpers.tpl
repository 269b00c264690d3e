{{/* A manifest as it is, in the release's namespaces. */}}
{{- define "bayplan.manifest" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (printf "manifests/%s" (index . 1)) | replace "bayplan-system" $root.Release.Namespace | replace "namespace: bayplan-agent" (printf "namespace: %s" $root.Values.agent.namespace) | replace "serviceaccount:bayplan-agent:" (printf "serviceaccount:%s:" $root.Values.agent.namespace) -}}
{{- end }}

{{- define "bayplan.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A Deployment or DaemonSet of the manifests with the values of its section: (list root file values extraArgs). */}}
{{- define "bayplan.workload" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
{{- $object := include "bayplan.manifest" (list $root (index . 1)) | fromYaml -}}
{{- $pod := $object.spec.template.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- $_ := set $container "image" (include "bayplan.image" $root) -}}
{{- if $root.Values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" $root.Values.image.pullPolicy }}{{ end -}}
{{- if $root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" $root.Values.imagePullSecrets }}{{ end -}}
{{- if hasKey $values "replicas" }}{{ $_ := set $object.spec "replicas" $values.replicas }}{{ end -}}
{{- $_ := set $container "args" (concat $container.args (index . 3)) -}}
{{- if $values.resources }}{{ $_ := set $container "resources" $values.resources }}{{ end -}}
{{- range $field := list "priorityClassName" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" -}}
{{- if index $values $field }}{{ $_ := set $pod $field (index $values $field) }}{{ end -}}
{{- end -}}
{{- if $values.tlsSecret -}}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" "tls" "secret" (dict "secretName" $values.tlsSecret))) -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" "tls" "mountPath" "/etc/bayplan-tls" "readOnly" true)) -}}
{{- $_ := set $container "args" (concat $container.args (list "--tls-cert-file=/etc/bayplan-tls/tls.crt" "--tls-private-key-file=/etc/bayplan-tls/tls.key")) -}}
{{- range $probe := list "livenessProbe" "readinessProbe" }}{{ $_ := set (index $container $probe "httpGet") "scheme" "HTTPS" }}{{ end -}}
{{- end -}}
{{- $port := "" -}}
{{- range $container.ports }}{{ if eq .name "health" }}{{ $port = .containerPort | int | toString }}{{ end }}{{ end -}}
{{- if and $root.Values.monitoring.scrapeAnnotations $port -}}
{{- $_ := set $object.spec.template.metadata "annotations" (dict "prometheus.io/scrape" "true" "prometheus.io/port" $port "prometheus.io/scheme" (ternary "https" "http" (not (empty $values.tlsSecret)))) -}}
{{- end -}}
{{ toYaml $object }}
{{- end }}
