#!/bin/sh
# stray.sh WHO HD CITY: a program that the supervisor runs leaves a process that has neither parent, session nor
# environment of its own, and which tries to act until it is ended. Its pid is left as WHO-stray, the exit codes of its
# tries in WHO-codes, and its first error as WHO-error. Ends when there is a sign WHO-go.
set -eu
who=$1 hd=$2 city=$3
signs=$city/signs
if [ "${4-}" = stray ]; then
    trap '' TERM INT HUP
    PATH=/usr/bin:/bin
    cd /
    echo $$ >"$signs/$who-stray.new"
    mv "$signs/$who-stray.new" "$signs/$who-stray"
    while :; do
        for op in 'relic create sneaked' 'mq approve gt-1'; do
            code=0
            "$hd" --json --city "$city" $op >/dev/null 2>"$signs/$who-error.new" || code=$?
            [ -e "$signs/$who-error" ] || mv "$signs/$who-error.new" "$signs/$who-error"
            echo "$code" >>"$signs/$who-codes"
        done
        sleep 0.1
    done
fi
(setsid env -i /bin/sh -c "sh '$0' '$who' '$hd' '$city' stray </dev/null >/dev/null 2>&1 &" &)
until [ -e "$signs/$who-go" ]; do sleep 0.05; done
