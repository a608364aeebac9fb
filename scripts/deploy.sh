#!/usr/bin/env bash
# Checks what is below deploy: the compose file against the Compose specification,
# the chart, in several shapes, and deploy/kubernetes against the schemas of
# Kubernetes, and the unit by systemd-analyze. Neither Docker nor a cluster is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
cache="$PWD/.cache"
out="$cache/deploy"
mkdir -p "$out"
rm -f "$out"/*.yaml

step "Compose"
go build -o "$cache/" ./tools/compose ./tools/chart
"$cache/compose" deploy/compose/compose.yaml

step "systemd"
if command -v systemd-analyze >/dev/null; then
  go build -o "$cache/gyro-unit" ./server/cmd/gyro
  sed "s#/usr/bin/gyro#$cache/gyro-unit#" deploy/systemd/gyro.service >"$out/gyro.service"
  systemd-analyze verify "$out/gyro.service"
else
  echo "there is no systemd-analyze: the unit is not checked"
fi

step "Kubernetes"
chart() { "$cache/chart" "$@" gyro deploy/helm/gyro; }
chart >"$out/defaults.yaml"
chart -f deploy/helm/values-million.yaml >"$out/million.yaml"
chart -set autoscaling.enabled=true -set ingress.enabled=true -set ingress.host=a.example -set ingress.tlsSecret=tls \
  -set redis.enabled=false -set 'unsafeSysctls=[{name: net.core.somaxconn, value: "65535"}]' \
  -set 'secrets={GYRO_HTTP_API_KEY: x}' -set 'imagePullSecrets=[{name: pull}]' -set 'podAnnotations={a: b}' \
  -set 'nodeSelector={a: b}' -set 'tolerations=[{key: a, operator: Exists}]' -set 'service.annotations={a: b}' \
  -set autoscaling.targetConnections=20000 -set networkPolicy.nodes.enabled=true \
  -set 'networkPolicy.nodes.internalFrom=[{podSelector: {matchLabels: {app: backend}}}]' \
  -set 'affinity={podAntiAffinity: {}}' -set priorityClassName=high -set metrics.enabled=false -set loadTest.enabled=true -set redis.storage.className=fast >"$out/options.yaml"
venv "$cache/venv-deploy" deploy/requirements.txt
# The oldest release that the chart allows, and the newest that there is a schema of.
for version in 1.30 1.37; do
  "$cache/venv-deploy/bin/kubernetes-validate" --strict --quiet -k "$version" "$out"/*.yaml deploy/kubernetes/*.yaml
done
echo "$(cat "$out"/*.yaml deploy/kubernetes/*.yaml | grep -c '^kind:') manifests are valid"
