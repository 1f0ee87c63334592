#!/usr/bin/env bash
# The figures of the cost model `measured` on whole plans: kernels of the ten models are timed within plans as far
# from the best as those that are raced, by another seed; then the plans of plans.ron are raced. Results lie in the
# folder plans.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
for model in "$here"/../../../tests/models/*.onnx; do
  ovolo tune "$model" --pipeline cpu --threads 2 --seeded-weights --within 40 --spread 2
done
ovolo experiment "$here/plans.ron" --out plans
cat plans/measured/rank.csv
