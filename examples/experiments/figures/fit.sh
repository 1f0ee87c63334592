#!/usr/bin/env bash
# Makes the figures of the cost model `learned`: for each of the ten models a fit on the other nine, and the regret
# of the plan that it chooses. The results are in the folders learned/NAME. The fits also use models given as
# arguments: fit.sh [MORE.onnx…]. Kernels are timed within many plans, because those times count most.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
models="$here/../../../tests/models"
common=(--pipeline cpu --threads 2 --seeded-weights)
more=("$@")
for model in "$models"/*.onnx "${more[@]}"; do
  ovolo tune "$model" "${common[@]}" --within 40 --spread 2
done
# The accuracy on the kernels of each model when that model is held out.
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
