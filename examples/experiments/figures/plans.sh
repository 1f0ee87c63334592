#!/usr/bin/env bash
# Makes the figures of the cost model `measured` on whole plans: kernels of the ten models are timed within plans that
# are as far from the best as those that are raced, but drawn with another seed; then the plans of plans.ron are
# raced. The results are in the folder plans.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
for model in "$here"/../../../tests/models/*.onnx; do
  ovolo tune "$model" --pipeline cpu --threads 2 --seeded-weights --within 40 --spread 2
done
ovolo experiment "$here/plans.ron" --out plans
cat plans/measured/rank.csv
