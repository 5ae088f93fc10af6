#!/usr/bin/env bash
# Checks how the library's error messages are written: "<what> is <value>: expected <what it should be>".
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0

# refuse PATTERN WHY: no source may have a line with it, comments aside.
refuse() {
    local found
    found=$(grep -rnE --include='*.cpp' --include='*.h' --include='*.cu' --include='*.cuh' -e "$1" src cuda |
        grep -vE '^[^:]+:[0-9]+: *//')
    [ -z "$found" ] && return
    printf '%s\n%s\n' "$2:" "$found"
    bad=1
}

refuse '[,;.] expected ' 'one style of "expected": a colon stands before it'
refuse '^ *"expected ' 'one style of "expected": it stands with its colon'
refuse '"[^"]*: expected[^"]*: expected' 'a message expects one thing'
refuse '"(exception|unknown|error|failed)"' 'a message is a sentence that says what went wrong'
refuse '\(it is ' 'a value is told once'
refuse '"flags is ", flags' 'flags are shown in hexadecimal (base/hex.h)'
exit $bad
