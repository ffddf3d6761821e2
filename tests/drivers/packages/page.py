"""Runs the blocks of a page of the manual in a folder, in their order.

    ```sh               a command; it must succeed
    ```sh until Ctrl-C  a command that is interrupted once it has printed a line
    ```python           a file, whose name is the remark in its first line
"""
import functools
import os
import re
import signal
import subprocess

from checks import check

BLOCK = re.compile(r"^```(\S+) ?(.*)\n((?:(?!```).*\n)*)```$", re.M)
SECONDS = 120


def run(page, folder, environment):
    with open(page, encoding="utf-8") as f:
        blocks = BLOCK.findall(f.read())
    lines = ["set -e"]
    for kind, name, text in blocks:
        if kind != "sh":
            path = os.path.join(folder, text.partition("\n")[0].lstrip("#/ "))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif name:
            interrupted(text.strip(), folder, environment)
        else:
            # What a block exports is there for the next ones.
            exported = [line for line in text.splitlines() if line.startswith("export ")]
            ended = subprocess.run(["bash", "-c", "\n".join(lines + [text])], cwd=folder, env=environment,
                                   timeout=SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check("of the page: " + text, ended.returncode == 0, ended.stdout)
            lines += exported
    commands = sum(kind == "sh" for kind, _, _ in blocks)
    check("blocks of the page", commands >= 10, commands)
    print("%d commands and %d files of %s" % (commands, len(blocks) - commands, os.path.basename(page)))


def interrupted(command, folder, environment):
    # A program that was started in the background, as these tests may be, is deaf to SIGINT, and so are its children.
    hears = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, preexec_fn=hears,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        line = process.stdout.readline()
        check("of the page: " + command, line.startswith("mongodb://127.0.0.1:"), line)
        # As a terminal does: to all processes in front.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        check("interrupted: " + command, process.returncode in (0, 130, -signal.SIGINT) and not said.strip(),
              "%d %s" % (process.returncode, said))
