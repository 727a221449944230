# A select dialog as coding agents have them: raw keys, pastes are ignored, Enter takes the marked row.
# $1: the key that ends each answer in the file "answers" beside it.
esc=$(printf '\033')
chosen=1
draw() {
  printf '\033[2J\033[HAllow this tool?  rm -rf ./build\r\n'
  row=1
  for label in 'Allow once' 'Always allow' 'Deny'; do
    if [ "$row" = "$chosen" ]; then printf ' > %s\r\n' "$label"; else printf '   %s\r\n' "$label"; fi
    row=$((row + 1))
  done
}
key() { dd bs=1 count=1 2>/dev/null; }
stty raw -echo
printf '\033[?2004h'
draw
while :; do
  byte=$(key; printf x)
  byte=${byte%x}
  case $byte in
    "$esc")
      key >/dev/null
      kind=$(key)
      case $kind in
        A) [ "$chosen" -gt 1 ] && chosen=$((chosen - 1)) ;;
        B) [ "$chosen" -lt 3 ] && chosen=$((chosen + 1)) ;;
        2) # A paste: everything up to its end is dropped.
          pasted=
          until [ "${pasted%201~}" != "$pasted" ]; do pasted=$pasted$(key); done ;;
      esac
      draw ;;
    "$(printf '\r')") break ;;
  esac
done
stty sane
printf '\033[?2004l\033[2J\033[Hchosen: %s\n' "$chosen"
exec cat
