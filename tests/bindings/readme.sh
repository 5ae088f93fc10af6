#!/usr/bin/env bash
# What a binding's README says to do, done: its blocks of commands are typed, in their order, and its program is written.
# What it prints must end with the model's answer. From installing to that, a README has under twenty lines.
#
#   readme.sh [--install] LANGUAGE FOLDER
#
# FOLDER is an empty one to work in. Without --install the first block, which installs the library, is not typed
# (for Python, which makes the wheels: FOLDER/wheels has them then).
set -euo pipefail
install=no
[ "$1" = --install ] && install=yes && shift
language=$1
folder=$(realpath "$2")
root=$(realpath "$(dirname "$0")/../..")
case $language in
    rust) readme=bindings/rust/nanolith/README.md program=src/main.rs ;;
    go) readme=bindings/go/README.md program=main.go ;;
    csharp) readme=bindings/csharp/README.md program=Hello.cs ;;
    python) readme=bindings/python/README.md program=hello.py ;;
esac

# All blocks become one script; the block in the language becomes the program, in the folder that the script is in then.
awk -v language="$language" -v program="$program" -v skip=$install '
    /^```sh$/ {++shells; on = !(shells == 1 && skip == "no"); next}
    $0 == "```" language {print "cat >" program " <<\"END_OF_PROGRAM\""; on = inside = 1; next}
    /^```$/ {if (inside) print "END_OF_PROGRAM"; on = inside = 0; next}
    on' "$root/$readme" | sed "s#/nanolith/#$root/#g" >"$folder/type.sh"
grep -q END_OF_PROGRAM "$folder/type.sh"

lines=$(awk '/^```[a-z]/ {on = 1; next} /^```$/ {on = 0} on && NF' "$root/$readme" | wc -l)
echo "$readme: $lines lines from installing to streamed text"
[ "$lines" -lt 20 ]
(cd "$folder" && bash -e type.sh) >"$folder/printed.txt"
tail -n 3 "$folder/printed.txt"
[ "$(tail -n 1 "$folder/printed.txt")" = " Jewick" ]
