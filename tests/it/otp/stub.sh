# The stub agent: `sh -c` reads this and then does the lines of its case. All that happens to it is a
# line of $HD_CITY/stamps, in the order in which it happens.
ulimit -c 0
me=$HD_ACTOR
signs=$HD_CITY/signs
stamp() { echo "$me $1" >>"$HD_CITY/stamps"; }
stamp up
# How often it has been started.
n=$(grep -cx "$me up" "$HD_CITY/stamps")

# Tells the test something, and waits for something from it.
sign() { : >"$signs/$1"; }
await() { while [ ! -e "$signs/$1" ]; do sleep 0.05; done; }
# Does nothing, without a process that would keep a trap from being heard.
rest() { while :; do sleep 1000 & wait $!; done; }
# Ends when it is asked to.
polite() { trap "trap '' INT TERM HUP; stamp down; kill \$!; wait \$!; exit ${1-0}" INT TERM HUP; rest; }
# Hears, and goes on.
stubborn() { trap 'stamp asked' INT TERM HUP; rest; }
