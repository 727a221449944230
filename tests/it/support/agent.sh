#!/bin/sh
# The scripted agent: runs the lines of its task that begin with "$ ", which may call the functions below.
# Every session leaves its prompt in $HD_CITY/seen/<relic>.<n>/, where n counts the relic's sessions.
set -eu
prompt=$1
task=TASK.md
[ ! -f .horde-task.md ] || task=.horde-task.md
signs=$HD_CITY/signs
n=1
until mkdir "$HD_CITY/seen/$HD_RELIC.$n" 2>/dev/null; do n=$((n + 1)); done
seen=$HD_CITY/seen/$HD_RELIC.$n
cp "$prompt" "$seen/prompt.new"
mv "$seen/prompt.new" "$seen/prompt"

# Retries: in its first milliseconds the session may be unknown to the daemon, which refuses it then.
until hd --json hook >"$seen/hook" 2>&1; do sleep 0.05; done

# Gives the test a sign, and waits for one.
sign() { : >"$signs/$1"; }
await() { while [ ! -e "$signs/$1" ]; do sleep 0.05; done; }
forever() { while :; do sleep 0.2; done; }
# Writes a file and commits it.
commit() {
    printf '%s\n' "${2-$HD_RELIC}" >"$1"
    git add -- "$1"
    git diff --cached --quiet || git commit --quiet -m "add $1"
}
# Writes the outcome file: an outcome and, after it, further fields.
outcome() { printf '{"id":"%s","outcome":"%s"%s}\n' "$HD_RELIC" "$1" "${2-}" >.horde-outcome; }
# Runs a command, and leaves its output and exit code for the test under the given name.
try() {
    name=$1
    shift
    code=0
    "$@" >"$signs/$name.out" 2>"$signs/$name.err" || code=$?
    printf '%s' "$code" >"$signs/$name.new"
    mv "$signs/$name.new" "$signs/$name"
}

sed -n 's/^\$ //p' "$task" >"$seen/steps"
. "$seen/steps"
