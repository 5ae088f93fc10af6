#!/usr/bin/env bash
# Whether a library still has the binary interface of docs/abi/libnanolith.so.0.abi; what may change is in
# docs/abi/README.md. The library must have debug information.
#
#   check_abi.sh LIBRARY            additions are fine, all else fails
#   check_abi.sh --write LIBRARY    writes the description
set -euo pipefail
write=no
[ "$1" = --write ] && write=yes && shift
library=$(realpath "$1")
cd "$(dirname "$0")/../.."
baseline=docs/abi/libnanolith.so.0.abi
if ! readelf -S "$library" | grep -q '\.debug_info'; then
    echo "$library has no debug information" >&2
    exit 1
fi
# Only what the public headers show: what is behind the handles is nobody's business.
public=(--drop-private-types --exported-interfaces-only)
if [ $write = yes ]; then
    abidw "${public[@]}" --headers-dir include/nanolith --no-corpus-path --no-comp-dir-path --no-show-locs \
        --type-id-style hash --out-file $baseline "$library"
else
    abidiff "${public[@]}" --headers-dir1 include/nanolith --headers-dir2 include/nanolith --no-added-syms \
        --no-unreferenced-symbols $baseline "$library"
fi
