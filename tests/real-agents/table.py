"""The results of `hd harness test --json`: the failed cases, and the table in the docs."""

import datetime
import json
import os
import sys

CASES = "start prompt commit done two question limit login kill handoff stop".split()
BEGIN = "<!-- written by tests/real-agents/run: begin -->"
END = "<!-- written by tests/real-agents/run: end -->"
MARKS = {"held": "yes", "did not hold": "**no**", "cannot be tried": "–"}


def read_result(path):
    with open(path, encoding="utf-8") as file:
        text = file.read().strip()
    return json.loads(text.splitlines()[-1]) if text else None


def read_known(path):
    """What is known not to hold: (harness, case) -> why."""
    known = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.strip().split(None, 2)
            if len(words) == 3 and not line.startswith("#"):
                known[(words[0], words[1])] = words[2]
    return known


def check(known_path, harness, path):
    """Tells of each case; fails when one did not hold that is not known."""
    known, result = read_known(known_path), read_result(path)
    if result is None:
        print(f"   {harness}: no result")
        return 1
    bad = 0
    for case in result["cases"]:
        why = f": {case['why']}" if case["why"] else ""
        print(f"   {case['case']:9} {case['result']}{why} ({case['seconds']:.0f} s)")
        is_known = (harness, case["case"]) in known
        if case["result"] == "did not hold" and not is_known:
            bad = 1
            print("\n".join(f"      | {row}" for row in (case["screen"] or "").splitlines() if row.strip()))
        if case["result"] == "held" and is_known:
            print(f"      it holds now: tests/real-agents/known says otherwise")
    return bad


def first_line(text):
    line = " ".join((text or "").split())
    return line if len(line) <= 200 else line[:197] + "..."


def table(programs_path, known_path, results):
    known, notes, rows, told = read_known(known_path), [], [], {}

    def note(text):
        if text not in told:
            notes.append(text)
            told[text] = len(notes)
        return f" [{told[text]}]"

    with open(programs_path, encoding="utf-8") as file:
        programs = [line.split() for line in file if line.strip() and not line.startswith("#")]
    for harness, _registry, _package, version in programs:
        path = os.path.join(results, f"{harness}.json")
        result = read_result(path) if os.path.exists(path) else None
        if result is None:
            rows.append([harness, version, "not run"] + [""] * len(CASES))
            continue
        when = datetime.date.fromtimestamp(os.path.getmtime(path)).isoformat()
        cells = {}
        for case in result["cases"]:
            why = case["why"]
            if case["result"] == "did not hold":
                why = known.get((harness, case["case"]), why)
            cells[case["case"]] = MARKS[case["result"]] + (note(first_line(why)) if why else "")
        rows.append([harness, result["version"] or version, when] + [cells.get(name, "") for name in CASES])
    head = ["harness", "version", "tried"] + CASES
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += [""] + [f"{number}. {text}" for number, text in enumerate(notes, 1)]
    return "\n".join(lines)


def write(programs_path, known_path, results, page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    _old, after = rest.split(END)
    text = before + BEGIN + "\n\n" + table(programs_path, known_path, results) + "\n\n" + END + after
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    verbs = {"check": check, "write": write}
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
