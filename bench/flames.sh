#!/usr/bin/env bash
# Flame graphs of the recordings that `nagi-bench breadth --perf DIR` has made: DIR/*.perf to OUT/*.svg.
#
#   flames.sh DIR OUT
#
# Needs perf, and inferno (`cargo install inferno`).
set -euo pipefail

[ $# = 2 ] || { sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
mkdir -p "$2"
for recording in "$1"/*.perf; do
    name=$(basename "$recording" .perf)
    perf script --no-inline -i "$recording" 2>/dev/null |
        inferno-collapse-perf 2>/dev/null |
        inferno-flamegraph --no-javascript --title "$name" --minwidth 1.5 --width 1200 >"$2/$name.svg"
done
