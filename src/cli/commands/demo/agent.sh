#!/bin/sh
# The demo's coding agent: a script that works like a real agent. It reads its task, changes files in its own
# worktree, checks its work, commits step by step, and says when it is finished.
set -eu

field() { sed -n "s/^[[:space:]]*$1:[[:space:]]*//p" "$task" | head -n 1; }

task=TASK.md
[ -f "$task" ] || task=.horde-task.md
language=$(field language)
greeting=$(field greeting)
# A task of `hd run "Teach greet.sh german"` has a title alone.
if [ -z "$language" ]; then
    language=$(sed -n '1s/.*[^A-Za-z]\([A-Za-z][A-Za-z]*\)[^A-Za-z]*$/\1/p' "$task" | tr '[:upper:]' '[:lower:]')
    [ -n "$language" ] || language=english
fi
greeting=${greeting:-"Hello in $language"}
echo "my task: teach greet.sh $language"

# After a crash the worktree is unchanged, and committed steps are not repeated.
commit() {
    git add -- "$1"
    git diff --cached --quiet || git commit --quiet -m "$2"
    echo "committed: $2"
}

printf '%s\n' "$greeting" >"greetings/$language"
commit "greetings/$language" "Greet in $language"
sleep 0.4

printf '%s, Ada!\n' "$greeting" >"tests/$language"
sh check.sh
commit "tests/$language" "Test the greeting in $language"
sleep 0.4

printf '# %s\n\nSay "%s" by `sh greet.sh %s NAME`.\n' "$language" "$greeting" "$language" \
    >"docs/$language.md"
commit "docs/$language.md" "Describe the greeting in $language"

hd done || exec hd done --no-change --reason "greet.sh greets in $language already"
