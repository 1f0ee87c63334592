#!/usr/bin/env bash
# The figures of the cost model `learned`: for each of the ten models a fit on the other nine, and the regret of
# the plan that it picks. Results lie in the folders learned/NAME. Models that are named are learned from as well:
# fit.sh [MORE.onnx…]. Kernels are timed within many plans: what they take there counts most.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
models="$here/../../../tests/models"
common=(--pipeline cpu --threads 2 --seeded-weights)
more=("$@")
for model in "$models"/*.onnx "${more[@]}"; do
  ovolo tune "$model" "${common[@]}" --within 40 --spread 2
done
# How well it does on kernels of each model held out.
mkdir -p learned
ovolo fit "$models"/*.onnx "${common[@]}" --out learned/all.json
ovolo fit "$models"/*.onnx "${common[@]}" --learner linear --out learned/linear.json
for model in "$models"/*.onnx; do
  name="$(basename "$model" .onnx)"
  others=("${more[@]}")
  for other in "$models"/*.onnx; do
    [ "$other" = "$model" ] || others+=("$other")
  done
  work="learned/$name.spec"
  mkdir -p "$work"
  cp "$here/learned.ron" "$work"
  cp "$model" "$work/model.onnx"
  ovolo fit "${others[@]}" "${common[@]}" --out "$work/learned.json"
  ovolo experiment "$work/learned.ron" --out "learned/$name"
  grep learned "learned/$name/measured/regret.csv"
done
