"""The blocks of the manual's pages: every fenced block has a language and says what is done with it.

    ```sh                      a shell script; the block after it may show its output:
    ```text output             compared with the output; `...` stands for any text in a line, or for any lines
    ```text output numbers     the same, but for the numbers: those of this run may be others
    ```js                      statements for mongosh, typed into one session for each page
    ```yaml file=nagi.conf     written to that file (python, go, java, xml ... likewise); a later block uses it
    ```sh not-run=needs-root   not run, with the reason
    ```text                    nothing that could be run

Further words: `exit=N` (the exit code of a script), `error` (mongosh prints an error), `background` (the script runs until
the page ends), `as=USER` (mongosh logs in as this user, with the password "secret"), `js session` (a new session).
A page whose blocks another test runs says so in a sentence, "Every block of this page is run by ...", or in a comment
`<!-- run by: ... -->`; its blocks are not looked at here.

Only the first word matters to renderers, so that the pages look the same everywhere.
"""
import collections
import re

Block = collections.namedtuple("Block", "page line language words text output")
Output = collections.namedtuple("Output", "text numbers")
RUN = ("sh", "js")
FILES = ("dockerfile", "go", "ini", "java", "js", "json", "python", "rust", "sh", "text", "toml", "xml", "yaml")
WORDS = re.compile(r"^(not-run=[A-Za-z0-9-]+|file=[\w./-]+|exit=\d+|as=\w+|error|background|session|output|numbers)$")
ELSEWHERE = re.compile(r"Every block of this page is run by ([^.]*)\.|<!-- run by: (.*?) -->", re.S)


def elsewhere(text):
    """Which other test runs the blocks of a page, or None."""
    found = ELSEWHERE.search(text)
    return found and " ".join((found.group(1) or found.group(2)).split())


class Untagged(Exception):
    pass


def parse(page, text):
    """The blocks of a page in order, with the output that is shown for each. Raises Untagged for a block without a
    known language, and for a block that is only indented."""
    found, fence, start, info, lines, inside = [], None, 0, "", [], 0
    list_indent, blank = None, True
    for number, line in enumerate(text.split("\n"), 1):
        opened = re.match(r"^( *)(```+)(.*)$", line)
        if fence:
            if opened and opened.group(2).startswith(fence) and not opened.group(3).strip():
                add(found, page, start, info, "\n".join(lines))
                fence, blank = None, False
            else:
                lines.append(line[min(inside, len(line) - len(line.lstrip(" "))):])
            continue
        if opened:
            fence, start, info, lines = opened.group(2), number, opened.group(3).strip(), []
            inside = len(opened.group(1))
            continue
        item = re.match(r"^( *)([-*]|\d+\.) ", line)
        if item:
            list_indent = len(item.group(0))
        elif re.match(r"^\S", line):
            list_indent = None
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and blank and not item and indent >= 4 + (list_indent or 0):
            raise Untagged("%s:%d: an indented block; a fenced one says its language" % (page, number))
        blank = not line.strip()
    if fence:
        raise Untagged("%s:%d: a block without an end" % (page, start))
    return found


def add(found, page, line, info, text):
    language, *words = info.split()  or [""]
    wrong = [w for w in words if not WORDS.match(w)]
    if language not in FILES or wrong:
        raise Untagged("%s:%d: ```%s: unknown language or word" % (page, line, info))
    value = dict(w.partition("=")[::2] for w in words)
    block = Block(page, line, language, value, text, None)
    if "output" in value:
        if not found or found[-1].line + found[-1].text.count("\n") + 10 < line:
            raise Untagged("%s:%d: output of no block" % (page, line))
        found[-1] = found[-1]._replace(output=Output(text, "numbers" in value))
        return
    if language not in RUN and language != "text" and not {"file", "not-run"} & set(value):
        raise Untagged("%s:%d: ```%s: a file or a reason why it is not run" % (page, line, info))
    found.append(block)


def matches(output, real):
    """Whether `real` is what a page shows: `...` stands for any text, a line of only `...` for any lines."""
    parts, shown, real = [], output.text.replace("\t", " "), real.replace("\t", " ")
    for line in shown.strip("\n").split("\n"):
        line = line.rstrip()
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = r"[^\n]*".join(spaced(p, output.numbers) for p in line.split("..."))
            parts.append(words + r"[ ]*\n")
    return re.fullmatch("".join(parts), "\n".join(l.rstrip() for l in real.strip("\n").split("\n")) + "\n") is not None


def spaced(text, numbers):
    """Columns may have other widths: spaces stand for any number of spaces. With `numbers`, each number stands for any,
    and the plural after it also for the singular."""
    pattern = " +".join(re.escape(p) for p in re.split(" +", text))
    if numbers:
        pattern = re.sub(r"(\d \+[a-z]+)s\b", r"\1s?", pattern)
        pattern = re.sub(r"\d+(?:(?:\\\.|,)\d+)*", r"\\d+(?:[.,]\\d+)*", pattern)
    return pattern


def check():
    """What the rules above say, on small examples."""
    summary = "0 critical, 2 warnings, 20 good"
    assert matches(Output(summary, True), "0 critical, 1 warning, 3 good")
    assert not matches(Output(summary, False), "0 critical, 1 warning, 3 good")
    assert matches(Output("a 1.5 ms\n...\nb", True), "a  20 ms\nx\ny\nb") and not matches(Output("a\n...\nb", True), "a\nx\nc")
    blocks = parse("x.md", "- item\n\n  ```sh exit=1\n  a\n    b\n  ```\n  ```text output\n  out\n  ```\n")
    assert [(b.language, b.words, b.text, b.output.text) for b in blocks] == [("sh", {"exit": "1"}, "a\n  b", "out")]
    for wrong in ("```\na\n```", "```perl\na\n```", "text\n\n    indented", "```sh not-run\na\n```", "```go\na\n```", "```sh\na"):
        try:
            parse("x.md", wrong)
        except Untagged:
            continue
        raise AssertionError(wrong)


if __name__ == "__main__":
    check()
