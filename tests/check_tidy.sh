#!/usr/bin/env bash
# Runs clang-tidy over the C and C++ sources that the build compiles: check_tidy.sh CLANG_TIDY BUILD_DIR
# A source that passed is checked again only when it, a header or the settings have changed.
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=$1
stamps=$2/tidy
mkdir -p "$stamps"
headers=$(find .clang-tidy cuda examples include src tests -name '*.h' -o -name '*.cuh' -o -name .clang-tidy |
    sort | xargs cat | sha256sum)

# A database with one command for each source: CUDA's host code is compiled a second time for its emulation.
python3 - "$2/compile_commands.json" "$stamps/compile_commands.json" >"$stamps/sources" <<'PYTHON'
import json, os, re, sys

commands = {}
for command in json.load(open(sys.argv[1])):
    source = os.path.relpath(command["file"])
    if re.fullmatch(r"(src|cuda|tests|examples)/.*\.(c|cpp)", source):
        commands.setdefault(source, command)
json.dump(list(commands.values()), open(sys.argv[2], "w"))
print("\n".join(sorted(commands)))
PYTHON

while read -r source; do
    sum=$(echo "$headers" | cat - "$source" | sha256sum | cut -d ' ' -f 1)
    [ -e "$stamps/$sum" ] || echo "$source $stamps/$sum"
done <"$stamps/sources" |
    xargs -r -P "$(nproc)" -L 1 bash -c '"$0" -p "$1" --quiet "$2" && touch "$3"' "$tidy" "$stamps"
