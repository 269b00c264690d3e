#!/bin/sh
# bayplan at work, no Kubernetes needed: 72 simulated nodes under three schedulers, two questions about a small cluster, and a gang.
# `make demo` runs it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
cd "$root"
report=build/simulation.html
picture=build/numa-telco-1.svg
mkdir -p build

# A question that is answered with "no" exits with 1; here that is part of the story.
ask() {
    "$@" || [ $? -eq 1 ]
}

heading() {
    printf '\n-- %s\n   $ %s\n\n' "$1" "$2"
}

ask bayplan simulate examples/scenarios/demo.yaml --report "$report"
printf '\n   Time lines, every node, NUMA maps of up to three nodes at the end under two schedulers: %s\n' "$report"

heading "A pod that waits in a recorded cluster. Why?" \
    "bayplan why telco/upf-large --cluster examples/cluster"
ask bayplan why telco/upf-large --cluster examples/cluster

heading "Where pods would stand: the NUMA zones of telco-1 after placing those of examples/pods" \
    "bayplan numa telco-1 --cluster examples/cluster -f examples/pods"
ask bayplan numa telco-1 --cluster examples/cluster -f examples/pods
bayplan numa telco-1 --cluster examples/cluster -f examples/pods -o svg > "$picture"
printf '\n   The same as a picture: %s\n' "$picture"

heading "A gang of 16 pods, together in one block and in few racks" \
    "bayplan place -f examples/gangs/pretrain.yaml --cluster examples/gangs/cluster.yaml"
ask bayplan place -f examples/gangs/pretrain.yaml --cluster examples/gangs/cluster.yaml

cat <<'NEXT'

-- Try next

   on your own cluster
     kubectl get nodes,pods,noderesourcetopologies -A -o json > cluster.json
     .venv/bin/bayplan place -f your-pod.yaml --cluster cluster.json
   gangs against a scheduler that does not know them
     .venv/bin/bayplan simulate examples/scenarios/gangs.yaml
   a scenario of your own: start from examples/scenarios/two-nodes.yaml, see docs/scenarios.md
   where pods would go, and what every plugin says
     .venv/bin/bayplan place -f examples/pods --cluster examples/cluster -o wide
   every option: .venv/bin/bayplan --help, or docs/commands.md
NEXT
