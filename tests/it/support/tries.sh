#!/bin/sh
# tries.sh WHO HD CITY: a program that the supervisor runs tries forbidden operations. The output of `hd` and its
# exit code are left for the test as WHO-stop, WHO-nuke ...
set -eu
who=$1 hd=$2 city=$3
signs=$city/signs
try() {
    name=$who-$1
    shift
    code=0
    "$@" >"$signs/$name.out" 2>"$signs/$name.err" || code=$?
    printf '%s' "$code" >"$signs/$name.new"
    mv "$signs/$name.new" "$signs/$name"
}
if [ "${4-}" = orphan ]; then
    try orphan "$hd" --json --city "$city" stop
    exit
fi
try stop "$hd" --json stop
try nuke "$hd" --json raider nuke Toast --yes
try approve "$hd" --json mq approve gt-1
try reload "$hd" --json reload
try prune "$hd" --json salvage prune --yes
try auto "$hd" --json auto run own
try agent "$hd" --json agent stop mayor
try create "$hd" --json relic create sneaked
try done "$hd" --json done
# An empty environment, another session or a missing parent must not hide the caller.
try bare env -i "$hd" --json --city "$city" stop
try aside setsid -w "$hd" --json stop
(setsid sh "$0" "$who" "$hd" "$city" orphan &)
until [ -e "$signs/$who-orphan" ]; do sleep 0.05; done
try look "$hd" --json status
