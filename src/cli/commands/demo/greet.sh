#!/bin/sh
# greet.sh LANGUAGE NAME
set -eu
printf '%s, %s!\n' "$(cat "greetings/$1")" "$2"
