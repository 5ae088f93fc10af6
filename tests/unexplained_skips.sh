#!/usr/bin/env bash
# Prints the cases in GoogleTest's XML report whose line matches PATTERN and that were skipped for another reason than
# that they are of another device; succeeds where there are any. XML may be - for the standard input.
#
#   tests/unexplained_skips.sh XML PATTERN
exec awk -v pattern="${2:?}" '
    /<testcase .*result="skipped"/ {
        name = $0
        getline
        if (name ~ pattern && $0 !~ /of the CPU alone/) { print name; found = 1 }
    }
    END { exit !found }' "${1:?}"
