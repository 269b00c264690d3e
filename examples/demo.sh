#!/bin/sh
# bayplan at work on the cluster of this folder: six nodes, five pods, no Kubernetes needed. `make demo` runs it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
cd "$root"
picture=build/numa-telco-1.svg
mkdir -p build

# A question that is answered with "no" exits with 1; here that is part of the story.
ask() {
    "$@" || [ $? -eq 1 ]
}

heading() {
    printf '\n-- %s\n   $ %s\n\n' "$1" "$2"
}

ask bayplan place -f examples/pods --cluster examples/cluster

heading "One of them alone: the nodes that were weighed, and what each plugin says" \
    "bayplan place -f examples/pods/upf.yaml --cluster examples/cluster -o wide"
ask bayplan place -f examples/pods/upf.yaml --cluster examples/cluster -o wide

heading "Where they stand: the NUMA zones of telco-1 after placing" \
    "bayplan numa telco-1 --cluster examples/cluster -f examples/pods"
ask bayplan numa telco-1 --cluster examples/cluster -f examples/pods
bayplan numa telco-1 --cluster examples/cluster -f examples/pods -o svg > "$picture"
printf '\n   The same as a picture: %s\n' "$picture"

heading "A pod that waits: the dump shows it as Pending. Why?" \
    "bayplan why telco/upf-large --cluster examples/cluster"
ask bayplan why telco/upf-large --cluster examples/cluster

heading "A pod that the default scheduler sent to the wrong node, and its kubelet refused" \
    "bayplan why telco/upf-7d9c --cluster examples/cluster"
ask bayplan why telco/upf-7d9c --cluster examples/cluster

cat <<'NEXT'

-- Try next

   on your own cluster
     kubectl get nodes,pods,noderesourcetopologies -A -o json > cluster.json
     .venv/bin/bayplan place -f your-pod.yaml --cluster cluster.json
   eight NUMA zones
     .venv/bin/bayplan numa amd-1 --cluster examples/cluster
   every option: .venv/bin/bayplan place --help, or docs/commands.md
NEXT
