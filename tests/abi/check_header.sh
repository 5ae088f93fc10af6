#!/usr/bin/env bash
# The public headers, each alone, compile as C99 and as C++17 with all warnings, with every compiler that is there.
set -euo pipefail
cd "$(dirname "$0")/../.."
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror -fsyntax-only -Iinclude)
for header in include/nanolith/*.h; do
    source="#include <${header#include/}>"
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        echo "$header with $compiler"
        echo "$source" | $compiler -std=c99 -Wstrict-prototypes "${warnings[@]}" -x c -
        echo "$source" | $compiler -std=c++17 -Wold-style-cast "${warnings[@]}" -x c++ -
    done
done
