#!/bin/sh
# Checks that every language greets Ada as its test expects, and that every greeting has a test.
set -eu
checked=0
for test in tests/*; do
    language=${test#tests/}
    said=$(sh greet.sh "$language" Ada)
    [ "$said" = "$(cat "$test")" ] || { echo "$language says: $said" >&2; exit 1; }
    checked=$((checked + 1))
done
echo "$checked languages greet as they should"
