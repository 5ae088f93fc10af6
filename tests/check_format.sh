#!/usr/bin/env bash
# Checks that all sources are laid out as .clang-format says: check_format.sh CLANG_FORMAT
set -euo pipefail
cd "$(dirname "$0")/.."
find include src cuda tests examples -name '*.h' -o -name '*.cpp' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh' |
    xargs "${1:-clang-format}" --dry-run --Werror
