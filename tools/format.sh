#!/usr/bin/env bash
# Checks the layout of all C++ files with clang-format 14; --fix writes it.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
FORMAT=$(command -v clang-format-14 || true)
if [ -z "$FORMAT" ]; then
  echo "format: clang-format-14 is missing (tools/install_dependencies.sh)" >&2
  exit 1
fi
mapfile -t files < <({ git ls-files -co --exclude-standard 2>/dev/null || find . -type f; } |
  grep -E '\.(h|cc|cu|cuh)$' | grep -v '^\(\./\)\?build/' | while read -r f; do
    [ -f "$f" ] && echo "$f"; done)
if [ "${1:-}" = --fix ]; then
  printf '%s\0' "${files[@]}" | xargs -0 "$FORMAT" -i
  echo "format: wrote ${#files[@]} files"
  exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 "$FORMAT" --dry-run -Werror 2>&1 | grep -E 'error:' |
  cut -d: -f1 | sort | uniq -c > "${TMPDIR:-/tmp}/vgpu-format.$$" || true
count=$(wc -l < "${TMPDIR:-/tmp}/vgpu-format.$$")
cat "${TMPDIR:-/tmp}/vgpu-format.$$"
rm -f "${TMPDIR:-/tmp}/vgpu-format.$$"
echo "format: ${#files[@]} files, $count to be formatted (tools/format.sh --fix)"
[ "$count" = 0 ]
