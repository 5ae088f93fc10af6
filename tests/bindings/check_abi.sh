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
# Constants are plain integers in all signatures, so abidiff doesn't see them.
constants() { grep -oE '\bNL_[A-Z0-9_]+ = [0-9]+' include/nanolith/nanolith.h | sort; }

# describe FILE: only what the public headers show; what is behind the handles is nobody's business.
describe() {
    abidw --drop-private-types --exported-interfaces-only --headers-dir include/nanolith --no-corpus-path \
        --no-comp-dir-path --no-show-locs --out-file "$1" "$library"
}

if [ $write = yes ]; then
    describe $baseline
    constants >docs/abi/constants.txt
    exit
fi
now=$(mktemp)
trap 'rm -f "$now" "$now.report"' EXIT
describe "$now"
# It says so, and no more, where a description can't be read.
if ! abidiff --no-added-syms $baseline "$now" 2>&1 | tee "$now.report" || grep -q error "$now.report"; then exit 1; fi
gone=$(constants | comm -23 docs/abi/constants.txt -)
[ -z "$gone" ] || { echo "Constants that are gone or changed: $gone" && exit 1; }
