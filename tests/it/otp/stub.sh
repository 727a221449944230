# The stub agent: `sh -c` reads this file, then runs the lines of its case. It records its life in
# $HD_CITY/stamps, a line each, in order.
ulimit -c 0
me=$HD_ACTOR
signs=$HD_CITY/signs
stamp() { echo "$me $1" >>"$HD_CITY/stamps"; }
stamp up
# The number of its starts.
n=$(grep -cx "$me up" "$HD_CITY/stamps")
echo $$ >>"$HD_CITY/counted"

# Gives the test a sign, and waits for one.
sign() { : >"$signs/$1"; }
await() { while [ ! -e "$signs/$1" ]; do sleep 0.05; done; }
# Waits for ever, without a foreground process that would delay a trap.
rest() { while :; do sleep 1000 & wait $!; done; }
# Ends on the first signal.
polite() { trap "trap '' INT TERM HUP; stamp down; kill \$!; wait \$!; exit ${1-0}" INT TERM HUP; rest; }
# Records signals, and goes on.
stubborn() { trap 'stamp asked' INT TERM HUP; rest; }
