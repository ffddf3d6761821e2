"""The licenses that a package with the program inside has to show."""
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LIST = os.path.join(ROOT, "packaging", "licenses")


def files():
    """Names and contents: the license of Nagi, and those of the libraries that the program is linked with."""
    with open(os.path.join(ROOT, "LICENSE"), "rb") as f:
        found = {"LICENSE": f.read()}
    try:
        found["LICENSES-OF-LIBRARIES"] = subprocess.run([LIST], check=True, stdout=subprocess.PIPE).stdout
    except OSError as error:
        print("the licenses of the libraries are not in the package: %s" % error, file=sys.stderr)
    return found
