#!/usr/bin/env bash
# Runs every fuzz target of the main module for a while.   usage: fuzz.sh [10s]
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' pkg receiver extension processor exporter | while read -r file; do
  for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | awk '{print $2}'); do
    echo "== $target ($(dirname "$file"))"
    CGO_ENABLED=0 go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" "./$(dirname "$file")"
  done
done
