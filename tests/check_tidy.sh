#!/usr/bin/env bash
# Runs clang-tidy over the library's C++ sources: check_tidy.sh CLANG_TIDY BUILD_DIR
# A source that passed is checked again only when it, a header or the settings have changed.
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=$1
build=$2
stamps=$build/tidy
mkdir -p "$stamps"
headers=$(find .clang-tidy include src -name '*.h' -o -name .clang-tidy | sort | xargs cat | sha256sum)

sources=()
for source in $(find src -name '*.cpp' | sort); do
    sum=$(echo "$headers" | cat - "$source" | sha256sum | cut -d ' ' -f 1)
    [ -e "$stamps/$sum" ] || sources+=("$source $stamps/$sum")
done
[ ${#sources[@]} = 0 ] && exit 0
printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -L 1 bash -c '"$0" -p "$1" --quiet "$2" && touch "$3"' "$tidy" "$build"
